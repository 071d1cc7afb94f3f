package receiver

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// failureRun counts the answers since the last one that its sender takes for a success.
type failureRun struct {
	length atomic.Int64
	limit  int
}

// failureCollector shows how near senders are to the number of failures after which they stop. Of
// the sources under one label it shows the one that is nearest.
type failureCollector struct {
	length, limit *prometheus.Desc

	mu   sync.Mutex
	runs map[string][]*failureRun // by label
}

func newFailureCollector() *failureCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"source"}, nil)
	}
	return &failureCollector{
		length: desc("oncegate_failures_in_a_row", "Answers of this process to the sender since its last success, for senders that document after how many they stop."),
		limit:  desc("oncegate_failures_in_a_row_limit", "After how many failures in a row the sender stops delivering, as it documents."),
		runs:   map[string][]*failureRun{},
	}
}

// add returns the run of a source, or nil if its sender documents no limit.
func (c *failureCollector) add(label string, limit int) *failureRun {
	if limit == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run := &failureRun{limit: limit}
	c.runs[label] = append(c.runs[label], run)
	return run
}

// Describe implements [prometheus.Collector].
func (c *failureCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.length
	out <- c.limit
}

// Collect implements [prometheus.Collector].
func (c *failureCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for label, runs := range c.runs {
		length, limit := 0.0, 1.0
		for i, run := range runs {
			if l, most := float64(run.length.Load()), float64(run.limit); i == 0 || l/most > length/limit {
				length, limit = l, most
			}
		}
		out <- prometheus.MustNewConstMetric(c.length, prometheus.GaugeValue, length, label)
		out <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, limit, label)
	}
}
