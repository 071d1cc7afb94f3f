package effect

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// HandlerFunc is a Go function that acts inside the database, in the transaction
// that records the outcome: exactly once, as far as what it does through tx. It
// must neither commit nor roll back tx. An error is retried, unless it is
// [Permanent] or one of the database's that no retry can help.
type HandlerFunc func(ctx context.Context, tx pgx.Tx, event Event) error

var _ Transactional = HandlerFunc(nil)

// Act implements [Transactional].
func (f HandlerFunc) Act(ctx context.Context, tx pgx.Tx, call *Call) Result {
	err := f(ctx, tx, call.Event)
	if err == nil {
		return Result{Outcome: Done}
	}
	if permanent, ok := errors.AsType[*permanentError](err); ok {
		return Result{Outcome: Dead, Reason: ReasonHandler, Excerpt: Clean(permanent.Error(), MaxExcerpt)}
	}
	if r := SQLFailure(err); r.Code != "" {
		return r
	}
	return Result{Outcome: Retry, Reason: ReasonHandler, Excerpt: Clean(err.Error(), MaxExcerpt)}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error that no retry can help: the effect becomes a dead
// letter. Its text is kept with the attempt, so it must not quote content.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}
