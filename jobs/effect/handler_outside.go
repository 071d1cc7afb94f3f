package effect

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// maxResult bounds what is kept of a result.
const maxResult = 64 << 10

// OutsideHandler is a Go function that acts outside the database: it calls a
// service, moves a file. The claim is committed before it is called, and no
// transaction waits for it; so it may end without anybody seeing how.
type OutsideHandler struct {
	// Handle makes one attempt. call.Key is the same in every attempt: what
	// deduplicates is to be told it. What it returns is kept as the effect's result,
	// up to 64 KiB.
	//
	// Without an error it happened. [Permanent] and [After] say that it did not, for
	// certain. Any other error, and a panic, leaves that open: see Deduplicates.
	Handle func(ctx context.Context, call *Call) (result []byte, err error)

	// Deduplicates: to do it again under the same key is to do it once. What may have
	// happened is then tried again. If it is false, an attempt that may have happened
	// is the last one: the effect is indeterminate, and a person decides.
	Deduplicates bool
}

var _ Sender = (*OutsideHandler)(nil)

// Render implements [Sender]. A handler gets the event as it is.
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
