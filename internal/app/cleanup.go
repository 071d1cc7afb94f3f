package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// cleanups is a stack of functions that undo something, by name.
type cleanups struct {
	mu    sync.Mutex
	stack []step
}

func (c *cleanups) add(name string, undo func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stack = append(c.stack, step{name: name, run: undo})
}

// run undoes everything, last first, and joins the errors.
func (c *cleanups) run(ctx context.Context) error {
	c.mu.Lock()
	stack := c.stack
	c.stack = nil
	c.mu.Unlock()
	var errs []error
	for _, s := range slices.Backward(stack) {
		if err := s.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}
