package effect

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// maxResult bounds the size of a result that is kept, in bytes.
const maxResult = 64 << 10

// OutsideHandler is a Go function that acts outside the database: it calls a service or moves a
// file. The claim is committed before the function is called, and no transaction waits for it, so
// its end may be lost.
type OutsideHandler struct {
	// Handle makes one attempt. call.Key is the same in every attempt. Pass it to a service that
	// deduplicates. The result is kept as the effect's result unless it is over 64 KiB.
	//
	// Without an error, the effect happened. [Permanent] and [After] say that it certainly did not.
	// Any other error, and a panic, leaves that open: see Deduplicates.
	Handle func(ctx context.Context, call *Call) (result []byte, err error)

	// Deduplicates means that repeating the work under the same key has no further effect. An
	// attempt that may have happened is then tried again. If it is false, such an attempt is the
	// last one: the effect becomes indeterminate, and an operator decides.
	Deduplicates bool
}

var _ Sender = (*OutsideHandler)(nil)

// Render implements [Sender]. A handler gets the event as received.
func (h *OutsideHandler) Render(*Call) ([]byte, error) { return nil, nil }

// Idempotent implements [Sender].
func (h *OutsideHandler) Idempotent() bool { return h.Deduplicates }

// Send implements [Sender].
func (h *OutsideHandler) Send(ctx context.Context, call *Call) Result {
	result, err := h.Handle(ctx, call)
	if err == nil {
		if len(result) > maxResult {
			result = nil
		}
		return Result{Outcome: Done, Stored: result}
	}
	if said, ok := errors.AsType[*verdict](err); ok {
		return said.result()
	}
	r := Result{Outcome: Unknown, Reason: reasons.Handler, Excerpt: pgtext.Clean(err.Error(), MaxExcerpt)}
	switch {
	case TimedOut(ctx, err):
		r.Reason = reasons.Timeout
	case ctx.Err() != nil:
		r.Reason = reasons.Stopped
	}
	return r
}
