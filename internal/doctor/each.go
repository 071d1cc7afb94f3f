package doctor

import "sync"

// atOnce is how many targets or brokers are connected to at the same time.
const atOnce = 16

// each examines all of them, some at the same time, and returns the findings in their order.
func each[T any](all []T, examine func(T) []Finding) (found []Finding) {
	results := make([][]Finding, len(all))
	var running sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i, one := range all {
		running.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			results[i] = examine(one)
		})
	}
	running.Wait()
	for _, findings := range results {
		found = append(found, findings...)
	}
	return found
}
