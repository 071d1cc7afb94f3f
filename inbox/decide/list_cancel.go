package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// CancelList is a decision that the items of a list that have not ended will not happen.
type CancelList struct {
	// Effect is the one that became the list.
	Effect inbox.ID

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string
}

// CancelledList describes a cancelled list.
type CancelledList struct {
	// CancelledAt is when.
	CancelledAt time.Time `json:"cancelled_at"`
	// Open is how many of the messages that are written have not ended. Those under way may still be sent, and the others end
	// as skipped. Messages that are not written yet never are.
	Open int `json:"open"`
}

// The statement locks the row so that decisions are made one after the other. It recognises a list by its items, because the
// stored list may be sealed.
const readCancellable = `
SELECT h.item, h.list_cancelled_at, now(),
    EXISTS (SELECT FROM effect i WHERE i.event_id = h.event_id AND i.route_id = h.route_id AND i.item > 0),
    o.items, o.items > 0 OR h.state IN ('pending', 'claimed', 'retry', 'held'), o.again
FROM effect h
CROSS JOIN LATERAL (
    SELECT count(*) AS items, coalesce(bool_or(i.rearmed_at > h.list_cancelled_at AND i.fresh_trigger IN ('replay', 'manual')), false) AS again
    FROM effect i
    WHERE i.event_id = h.event_id AND i.route_id = h.route_id AND i.item > 0 AND i.state IN ('pending', 'claimed', 'retry', 'held')) o
WHERE h.id = $1
FOR NO KEY UPDATE OF h`

const cancelList = `UPDATE effect SET list_cancelled_at = $2, revision = revision + 1 WHERE id = $1`

// CancelList cancels a list. The workers read that before each item, so that none begins afterwards, and skip it. It
// returns [inbox.ErrNotFound] for an unknown effect, and [inbox.ErrState] for one that became no list or whose items have
// all ended. A list that is cancelled already stays so, and the answer is the same, unless a replay has begun some of its
// items again.
func (e *Decider) CancelList(ctx context.Context, d CancelList) (out CancelledList, err error) {
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return out, fmt.Errorf("cancelling a list: %w", err)
	}
	err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
		out, err = cancelListTx(ctx, tx, d)
		return err
	})
	if err != nil {
		return CancelledList{}, fmt.Errorf("cancelling the list of effect %s: %w", d.Effect, err)
	}
	return out, nil
}

func cancelListTx(ctx context.Context, tx pgx.Tx, d CancelList) (out CancelledList, err error) {
	var item int
	var before *time.Time
	var isList, open, again bool
	err = tx.QueryRow(ctx, readCancellable, d.Effect).Scan(&item, &before, &out.CancelledAt, &isList, &out.Open, &open, &again)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return out, inbox.ErrNotFound
	case err != nil:
		return out, err
	case item > 0 || !isList:
		return out, fmt.Errorf("%w: it became no list, or none of its messages is written yet", inbox.ErrState)
	case before != nil && !again:
		out.CancelledAt = *before
		return out, nil
	case !open:
		return out, fmt.Errorf("%w: all its messages have ended", inbox.ErrState)
	}
	if _, err := tx.Exec(ctx, cancelList, d.Effect, out.CancelledAt); err != nil {
		return out, err
	}
	return out, inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: out.CancelledAt, Actor: d.Actor, Action: inbox.AuditListCancel, Object: "effect/" + d.Effect.String(), Reason: d.Reason, After: out,
	})
}
