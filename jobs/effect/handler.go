package effect

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// HandlerFunc is a Go function that acts inside the database, in the transaction
// that records the outcome: exactly once, as far as what it does through tx. It
// must neither commit nor roll back tx. An error is retried, after [After] no
// sooner than it says, unless it is [Permanent] or one of the database's that no
// retry can help.
//
// For what acts anywhere else there is [OutsideHandler].
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

// verdict is an error by which a handler says what it means for the effect.
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

// Permanent marks an error that no retry can help: it did not happen, and the
// effect becomes a dead letter. Its text is kept with the attempt, so it must not
// quote content.
func Permanent(err error) error { return judged(err, Dead, 0) }

// After marks an error of something that did not happen and is to be tried again,
// no sooner than d; 0 leaves the wait to the retry policy. Its text is kept with
// the attempt, so it must not quote content.
func After(d time.Duration, err error) error { return judged(err, Retry, max(d, 0)) }

func judged(err error, outcome Outcome, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &verdict{err: err, outcome: outcome, after: after}
}
