// Package background runs a function in a goroutine and stops it in an orderly way.
package background

import "context"

// Run calls run in a new goroutine and returns at once. The end of ctx does not end run, which
// inherits only the values of ctx: the context of run ends when stop is called.
//
// stop ends the context of run and waits until run has returned. It then returns nil. If the context
// passed to stop ends first, stop returns the cause of that context, and run may still be running.
// stop may be called more than once, and by several goroutines.
func Run(ctx context.Context, run func(ctx context.Context)) (stop func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func(ctx context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
