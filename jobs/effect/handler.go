package effect

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// HandlerFunc is a Go function that acts inside the database, in the transaction that records the
// outcome. What it does through tx happens exactly once. It must neither commit nor roll back tx.
// An error is retried, no sooner than [After] says, unless it is [Permanent] or a database error
// that no retry can help.
//
// Use [OutsideHandler] for a function that acts anywhere else.
type HandlerFunc func(ctx context.Context, tx pgx.Tx, event Event) error

var _ Transactional = HandlerFunc(nil)

// Act implements [Transactional].
func (f HandlerFunc) Act(ctx context.Context, tx pgx.Tx, call *Call) Result {
	err := f(ctx, tx, call.Event)
	if err == nil {
		return Result{Outcome: Done}
	}
	if said, ok := errors.AsType[*verdict](err); ok {
		return said.result()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Result{Outcome: Retry, Reason: reasons.SQLTimeout}
	}
	if r := SQLFailure(err); r.Code != "" {
		return r
	}
	return Result{Outcome: Retry, Reason: reasons.Handler, Excerpt: pgtext.Clean(err.Error(), MaxExcerpt)}
}

// verdict is an error with which a handler says what the error means for the effect.
type verdict struct {
	err     error
	outcome Outcome
	after   time.Duration
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

func (v *verdict) result() Result {
	return Result{Outcome: v.outcome, Reason: reasons.Handler, Excerpt: pgtext.Clean(v.Error(), MaxExcerpt), RetryAfter: v.after}
}

// Permanent marks an error that no retry can help: nothing happened, and the effect becomes a dead
// letter. The error's text is kept with the attempt, so it must not quote content.
func Permanent(err error) error { return judged(err, Dead, 0) }

// After marks an error after which nothing has happened and the attempt should be repeated, no
// sooner than d. A d of 0 leaves the wait to the retry policy. The error's text is kept with the
// attempt, so it must not quote content.
func After(d time.Duration, err error) error { return judged(err, Retry, max(d, 0)) }

func judged(err error, outcome Outcome, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &verdict{err: err, outcome: outcome, after: after}
}
