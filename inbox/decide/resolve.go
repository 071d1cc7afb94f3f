package decide

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Resolution is a decision about the outcome of an indeterminate effect.
type Resolution string

// The resolutions.
const (
	// ResolveDone: it happened. Nothing more is sent.
	ResolveDone Resolution = "done"
	// ResolveResend: it did not happen, or may happen twice. It gets new attempts.
	ResolveResend Resolution = "resend"
)

// Resolve is a decision about an indeterminate effect: the resolution, the actor and the reason.
type Resolve struct {
	Effect inbox.ID
	As     Resolution

	// Version and Revision fence the decision: it applies only to the effect with this version and revision. A
	// Version of 0 accepts any version and revision.
	Version, Revision int

	// CalledAgain resends the effect although a later call repeats its operation. The operator thereby accepts
	// that it may happen once more.
	CalledAgain bool

	// Result is the result to store for an effect that is done; nil keeps the result that follows from the request
	// that was sent.
	Result []byte

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string
}

// Resolve ends what an attempt left open: the effect becomes done, or gets new attempts. It goes through settle,
// and the audit entry is committed with it. It returns [inbox.ErrNotFound], [inbox.ErrState] if the effect is not
// indeterminate or has changed since it was shown, [inbox.ErrCalledAgain], [inbox.ErrRouteGone], or [inbox.ErrLocked] if another
// transaction keeps the effect or its stream locked.
func (e *Decider) Resolve(ctx context.Context, r Resolve) error {
	if r.As != ResolveDone && r.As != ResolveResend {
		return fmt.Errorf("resolving effect %s: unknown resolution %q", r.Effect, r.As)
	}
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return fmt.Errorf("resolving effect %s: %w", r.Effect, err)
	}
	err := locks.ForEachChunk(ctx, inbox.ErrLocked, []inbox.ID{r.Effect}, 1, func(id inbox.ID) inbox.ID { return id }, func([]inbox.ID) (missed []inbox.ID, err error) {
		err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
			missed, err = e.resolveTx(ctx, tx, r)
			return err
		})
		return missed, err
	})
	if err != nil {
		return fmt.Errorf("resolving effect %s: %w", r.Effect, err)
	}
	return nil
}

func (e *Decider) resolveTx(ctx context.Context, tx pgx.Tx, r Resolve) (missed []inbox.ID, err error) {
	held, missed, err := inbox.LockEffectsTx(ctx, tx, inbox.EffectLocks{Effects: []inbox.ID{r.Effect}})
	if err != nil || len(missed) > 0 {
		return missed, err
	}
	h := held[r.Effect]
	switch {
	case h == nil:
		return nil, inbox.ErrNotFound
	case h.State != inbox.EffectIndeterminate:
		return nil, fmt.Errorf("%w: it is %s, not indeterminate", inbox.ErrState, h.State)
	case r.Version != 0 && (r.Version != h.Version || r.Revision != h.Revision):
		return nil, fmt.Errorf("%w: it has changed since it was looked at", inbox.ErrState)
	case h.RouteGone && r.As == ResolveResend:
		return nil, inbox.ErrRouteGone
	case h.CalledAgain && r.As == ResolveResend && !r.CalledAgain:
		return nil, inbox.ErrCalledAgain
	}
	return nil, e.resolveLockedTx(ctx, tx, decision{as: r.As, actor: r.Actor, reason: r.Reason, result: r.Result}, []*inbox.LockedEffect{h})
}

// decision is what a person, or a probe, decided about indeterminate effects.
type decision struct {
	as            Resolution
	actor, reason string
	result        []byte // of an effect that is done; nil keeps the one that follows from what was sent
}

// resolveLockedTx carries out a decision for effects that the caller has locked, each with its own audit entry.
func (e *Decider) resolveLockedTx(ctx context.Context, tx pgx.Tx, d decision, found []*inbox.LockedEffect) error {
	group, wakes, err := e.resolutions(ctx, tx, d.as, found)
	if err != nil {
		return err
	}
	if d.as == ResolveDone && len(d.result) > 0 {
		for i := range group {
			group[i].Result = d.result
		}
	}
	settled, err := e.store.SettleLocked(ctx, tx, group, wakes)
	if err != nil {
		return err
	}
	var b pgx.Batch
	for i, h := range found {
		if !settled[i].Applied {
			return fmt.Errorf("%w: effect %s changed under its lock", inbox.ErrState, h.Effect)
		}
		a := inbox.AuditEntry{
			At: h.Now, Actor: d.actor, Action: inbox.AuditResolveDone, Object: "effect/" + h.Effect.String(), Reason: d.reason, Before: h.Snapshot(),
			After: inbox.EffectSnapshot{State: inbox.EffectDone, Attempts: h.Attempts, Version: h.Version, Revision: h.Revision + 1, SendStarted: h.SendStarted},
		}
		if d.as == ResolveResend {
			a.Action = inbox.AuditResolveResend
			a.After = inbox.EffectSnapshot{State: inbox.EffectPending, Reason: string(reasons.Resent), Version: h.Version + 1, Revision: h.Revision + 1}
		}
		if err := a.Queue(&b); err != nil {
			return err
		}
	}
	return tx.SendBatch(ctx, &b).Close()
}

// To send again is to decide that the target knows nothing of the attempts so far: its key window starts again.
// The effect may have happened nevertheless, and therefore keeps its key.
const forgetUnknowns = `UPDATE effect SET unknown_since = NULL, unknown_lease = NULL, unknown_before = true WHERE id = ANY ($1::uuid[])`

const readRendered = `SELECT id, rendered, rendered_key_id FROM effect WHERE id = ANY ($1::uuid[]) AND rendered IS NOT NULL`

// keepEvidence sets the results of settlements from the bytes that were sent. An effect whose bytes cannot be
// opened here gets none.
func (e *Decider) keepEvidence(ctx context.Context, tx pgx.Tx, ids []inbox.ID, group []inbox.Settlement) error {
	if !e.store.KeepsEvidence() {
		return nil
	}
	rows, err := tx.Query(ctx, readRendered, ids)
	if err != nil {
		return fmt.Errorf("reading what was sent: %w", err)
	}
	results := map[inbox.ID][]byte{}
	var id inbox.ID
	var rendered []byte
	var keyID *int32
	_, err = pgx.ForEachRow(rows, []any{&id, &rendered, &keyID}, func() error {
		if plain, err := e.store.Keyring().Open(place.Rendered(id), keyID, rendered); err == nil {
			results[id] = e.store.Evidence(plain)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading what was sent: %w", err)
	}
	for i := range group {
		group[i].Result = results[group[i].Effect]
	}
	return nil
}

// resolutions makes the settlements of locked effects, with their wake-ups if they are sent again.
func (e *Decider) resolutions(ctx context.Context, tx pgx.Tx, as Resolution, found []*inbox.LockedEffect) ([]inbox.Settlement, []inbox.Wake, error) {
	group := make([]inbox.Settlement, len(found))
	ids := make([]inbox.ID, len(found))
	for i, h := range found {
		ids[i] = h.Effect
		group[i] = inbox.Settlement{
			Effect: h.Effect, From: inbox.EffectIndeterminate, Version: h.Version, State: inbox.EffectDone,
			RouteID: h.RouteID, SequenceKeyHash: h.SequenceKeyHash,
		}
	}
	if as == ResolveDone {
		return group, nil, e.keepEvidence(ctx, tx, ids, group)
	}
	if _, err := tx.Exec(ctx, forgetUnknowns, ids); err != nil {
		return nil, nil, err
	}
	jobs, err := e.store.ReserveTx(ctx, tx, len(group))
	if err != nil {
		return nil, nil, err
	}
	wakes := make([]inbox.Wake, len(group))
	for i := range group {
		s := &group[i]
		s.State, s.Rearm, s.Trigger, s.JobID, s.Reason = inbox.EffectPending, true, inbox.TriggerManual, jobs[i], reasons.Resent
		wakes[i] = inbox.Wake{JobID: jobs[i], Kind: inbox.WakeEffect, ID: s.Effect}
	}
	return group, wakes, nil
}
