package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A panic of a kind ends its attempt, not the worker. The panic's text is not kept because it may
// quote the event.

func safeRender(sender effect.Sender, call *effect.Call) (rendered []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rendering: panic of type %T", p)
		}
	}()
	return sender.Render(call)
}

func safeSend(ctx context.Context, sender effect.Sender, call *effect.Call) (result effect.Result) {
	defer func() {
		if p := recover(); p != nil {
			// It may have been sent.
			result = effect.Result{Outcome: effect.Unknown, Reason: string(reasons.Panic)}
		}
	}()
	return sender.Send(ctx, call)
}

// safeAct acts inside a savepoint, so that a failed attempt leaves no changes and its outcome can
// still be recorded. A non-nil error means that the transaction can record nothing any more.
func safeAct(ctx context.Context, tx pgx.Tx, kind effect.Transactional, call *effect.Call) (result effect.Result, err error) {
	point, err := tx.Begin(ctx)
	if err != nil {
		return effect.SQLFailure(err), err
	}
	result = actRecovered(ctx, point, kind, call)
	if result.Outcome == effect.Done {
		if err := point.Commit(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			return effect.SQLFailure(err), err
		}
		return result, nil
	}
	if err := point.Rollback(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return result, err
	}
	return result, nil
}

func actRecovered(ctx context.Context, tx pgx.Tx, kind effect.Transactional, call *effect.Call) (result effect.Result) {
	defer func() {
		if p := recover(); p != nil {
			result = effect.Result{Outcome: effect.Retry, Reason: string(reasons.Panic)}
		}
	}()
	return kind.Act(ctx, tx, call)
}

func safeArguments(kind groupable, call *effect.Call) (args []any, failure *effect.Result) {
	defer func() {
		if p := recover(); p != nil {
			failure = &effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
		}
	}()
	return kind.Arguments(call)
}
