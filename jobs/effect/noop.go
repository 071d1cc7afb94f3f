package effect

import "context"

// Noop is a target that does nothing and always succeeds. Use it in development, and to measure
// everything but the target. Because it acts outside the database, its effects are claimed and
// settled in groups.
type Noop struct{}

var _ Sender = Noop{}

// Render implements [Sender].
func (Noop) Render(*Call) ([]byte, error) { return nil, nil }

// Send implements [Sender].
func (Noop) Send(context.Context, *Call) Result { return Result{Outcome: Done} }

// Idempotent implements [Sender]. It returns true because doing nothing twice is harmless.
func (Noop) Idempotent() bool { return true }
