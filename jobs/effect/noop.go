package effect

import "context"

// Noop is a target that does nothing and always has: for development and for
// measuring everything but the target. As an outside kind it is claimed and
// settled in groups.
type Noop struct{}

var _ Sender = Noop{}

// Render implements [Sender].
func (Noop) Render(*Call) ([]byte, error) { return nil, nil }

// Send implements [Sender].
func (Noop) Send(context.Context, *Call) Result { return Result{Outcome: Done} }

// Idempotent implements [Sender]: doing nothing twice is doing nothing.
func (Noop) Idempotent() bool { return true }
