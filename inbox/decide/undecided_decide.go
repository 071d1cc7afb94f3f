package decide

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// UndecidedEnd says how the wait of an effect that is held for a person ends.
type UndecidedEnd string

// The ways.
const (
	// UndecidedApply lets it run: one whose number is taken in its turn in its sequence,
	// one that has no place there as soon as it can.
	UndecidedApply UndecidedEnd = "apply"
	// UndecidedSkip settles it as skipped: it never happens.
	UndecidedSkip UndecidedEnd = "skip"
)

// EndUndecided is a decision about effects that are held for a person.
type EndUndecided struct {
	Effects []inbox.ID
	As      UndecidedEnd

	// Revisions are the revisions of the effects that the operator saw; an effect without
	// one is accepted with any revision.
	Revisions map[inbox.ID]int

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string
}

// undecidedChunk is how many effects one transaction ends. Each gets an audit entry.
const undecidedChunk = 200

// EndUndecided ends the wait of effects that are held for a person, a few in each
// transaction, each with an audit entry. It returns how many it ended: all of them, or
// [inbox.ErrNotFound] or [inbox.ErrState] for the first one that does not exist or is not held for a
// person. In that case the effects of earlier transactions are already ended.
func (e *Decider) EndUndecided(ctx context.Context, d EndUndecided) (ended int, err error) {
	if d.As != UndecidedApply && d.As != UndecidedSkip {
		return 0, fmt.Errorf("ending the wait of effects: unknown way %q", d.As)
	}
	if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
		return 0, fmt.Errorf("ending the wait of effects: %w", err)
	}
	err = locks.ForEachChunk(ctx, inbox.ErrLocked, d.Effects, undecidedChunk, func(id inbox.ID) inbox.ID { return id }, func(chunk []inbox.ID) (missed []inbox.ID, err error) {
		n := 0
		err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
			n, missed, err = e.endUndecidedTx(ctx, tx, d, chunk)
			return err
		})
		if err == nil {
			ended += n
		}
		return missed, err
	})
	if err != nil {
		return ended, fmt.Errorf("ending the wait of effects: %w", err)
	}
	return ended, nil
}

func (d *EndUndecided) changed(h *inbox.LockedEffect) bool {
	revision, seen := d.Revisions[h.Effect]
	return seen && revision != h.Revision
}

const applyUndecided = `
UPDATE effect e
SET state = 'pending', next_at = now(), reason = NULL, order_waived = true, job_id = a.job_id, revision = e.revision + 1
FROM unnest($1::uuid[], $2::bigint[]) AS a (id, job_id)
WHERE e.id = a.id`

func (e *Decider) endUndecidedTx(ctx context.Context, tx pgx.Tx, d EndUndecided, ids []inbox.ID) (n int, missed []inbox.ID, err error) {
	held, missed, err := inbox.LockEffectsTx(ctx, tx, inbox.EffectLocks{Effects: ids})
	if err != nil {
		return 0, nil, err
	}
	away := make(map[inbox.ID]bool, len(missed))
	for _, id := range missed {
		away[id] = true
	}
	var found []*inbox.LockedEffect
	for _, id := range ids {
		switch h := held[id]; {
		case away[id]:
		case h == nil:
			return 0, nil, fmt.Errorf("effect %s: %w", id, inbox.ErrNotFound)
		case h.State != inbox.EffectHeld || !h.Reason.ForPerson():
			return 0, nil, fmt.Errorf("%w: effect %s is %s and not held for a person", inbox.ErrState, id, h.State)
		case d.changed(h):
			return 0, nil, fmt.Errorf("%w: effect %s has changed since it was looked at", inbox.ErrState, id)
		default:
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return 0, missed, nil
	}
	action, after := inbox.AuditOrderSkip, inbox.EffectSnapshot{State: inbox.EffectSkipped, Reason: string(reasons.Discarded)}
	end := e.skipUndecidedTx
	if d.As == UndecidedApply {
		action, after, end = inbox.AuditOrderApply, inbox.EffectSnapshot{State: inbox.EffectPending}, e.applyUndecidedTx
	}
	if err := end(ctx, tx, found); err != nil {
		return 0, nil, err
	}
	var b pgx.Batch
	for _, h := range found {
		after.Attempts, after.Version, after.Revision = h.Attempts, h.Version, h.Revision+1
		a := inbox.AuditEntry{
			At: h.Now, Actor: d.Actor, Action: action, Object: "effect/" + h.Effect.String(), Reason: d.Reason, Before: h.Snapshot(), After: after,
		}
		if err := a.Queue(&b); err != nil {
			return 0, nil, err
		}
	}
	return len(found), missed, tx.SendBatch(ctx, &b).Close()
}

// applyUndecidedTx wakes the effects; the worker that claims one finds its turn.
func (e *Decider) applyUndecidedTx(ctx context.Context, tx pgx.Tx, found []*inbox.LockedEffect) error {
	ids := make([]inbox.ID, len(found))
	for i, h := range found {
		ids[i] = h.Effect
	}
	send := func(ctx context.Context, b *pgx.Batch) error { return tx.SendBatch(ctx, b).Close() }
	wakes, err := e.store.ReserveWakes(ctx, send, ids)
	if err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(applyUndecided, ids, inbox.JobsOf(wakes))
	e.store.Enqueuer().EnqueueTx(&b, wakes)
	return tx.SendBatch(ctx, &b).Close()
}

func (e *Decider) skipUndecidedTx(ctx context.Context, tx pgx.Tx, found []*inbox.LockedEffect) error {
	group := make([]inbox.Settlement, len(found))
	for i, h := range found {
		group[i] = inbox.Settlement{
			Effect: h.Effect, From: inbox.EffectHeld, Version: h.Version, State: inbox.EffectSkipped, Reason: reasons.Discarded,
			RouteID: h.RouteID, SequenceKeyHash: h.SequenceKeyHash,
		}
	}
	settled, err := e.store.SettleLocked(ctx, tx, group, nil)
	if err != nil {
		return err
	}
	for i := range settled {
		if !settled[i].Applied {
			return fmt.Errorf("%w: effect %s changed under its lock", inbox.ErrState, group[i].Effect)
		}
	}
	return nil
}
