package decide

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Discard is a decision that dead letters will not happen.
type Discard struct {
	// IDs names them; Filter finds them. One of them is required: All takes every
	// dead letter there is.
	IDs    []inbox.ID
	Filter read.DeadFilter
	All    bool

	// Seen limits the decision to the dead letters that a dry run showed the operator, in the revision
	// that it showed. If Seen is nil, Discard searches for them.
	Seen []Seen

	// Max bounds how many there may be; more are an error, and nothing is done. 0 is
	// the default of 1,000, and 100,000 is the most.
	Max int

	// DryRun counts them and changes nothing.
	DryRun bool

	// Actor and Reason go into the audit. Both are required, but for a dry run.
	Actor, Reason string

	// Progress, if set, is called after each transaction with how many are done.
	Progress func(done, of int)
}

// Discarded is the result of a [Discard].
type Discarded struct {
	// Matched is how many dead letters were named or found.
	Matched int `json:"matched"`
	// Discarded is how many are skipped now.
	Discarded int `json:"discarded"`
	// Changed is how many were no longer dead when their turn came.
	Changed int `json:"changed"`
	// Seen are those that were named or found.
	Seen []Seen `json:"-"`
}

// Seen is an effect, or an event that is a dead letter, as an operator saw it before a decision. The
// decision covers only that revision: an effect with another revision has been given new attempts or
// decided about since.
type Seen struct {
	ID inbox.ID
	// Event says that it is an event. It has no revision.
	Event    bool
	Revision int
}

// The bounds of [Discard.Max].
const (
	DefaultDiscards = 1000
	MaxDiscards     = 100_000
)

// ErrScope is returned for a request that names nothing to act on.
var ErrScope = errors.New("say which: ids or a filter, or all of them by name")

// ErrBound is returned for a request that more rows match than it allows.
var ErrBound = errors.New("more match than allowed")

// discardChunk is how many dead letters one transaction discards. Each gets an
// audit entry.
const discardChunk = 200

// The oldest of each kind first.
const (
	findDead = `
(SELECT e.id, false, e.revision
FROM effect e
WHERE e.state = 'dead'`
	findDeadEvents = `
ORDER BY e.id
LIMIT ?)
UNION ALL
(SELECT v.id, true, 0
FROM inbox_event v
WHERE ` + row.DeadEvent + ` `
	findDeadLimit = `
ORDER BY v.id
LIMIT ?)`
)

const findDeadByID = `
SELECT a.id, e.id IS NULL, coalesce(e.revision, 0), coalesce(e.state, v.admission),
    e.state = 'dead' OR v.admission IN ('unusable', 'beyond_retention') AND v.discarded_at IS NULL
        AND NOT EXISTS (SELECT FROM effect x WHERE x.event_id = v.id)
FROM unnest($1::uuid[]) AS a (id)
LEFT JOIN effect e ON e.id = a.id
LEFT JOIN inbox_event v ON v.id = a.id
ORDER BY a.id`

// Discard settles dead effects as skipped, which releases the effects after them in a sequence and frees
// their keys, and removes events that cannot be used from the list. It works through settle, a few at a
// time, each with an audit entry that has the body's hash and the state before. If a call is
// interrupted, make it again. Attempts and bytes stay until their retention ends. For ids that are not
// dead letters it returns [inbox.ErrNotFound] or [inbox.ErrState].
func (e *Decider) Discard(ctx context.Context, d Discard) (Discarded, error) {
	out, err := e.discard(ctx, d)
	if err != nil {
		return out, fmt.Errorf("discarding dead letters: %w", err)
	}
	return out, nil
}

func (e *Decider) discard(ctx context.Context, d Discard) (Discarded, error) {
	if len(d.IDs) == 0 && d.Filter.IsZero() && !d.All {
		return Discarded{}, ErrScope
	}
	if !d.DryRun {
		if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
			return Discarded{}, err
		}
	}
	if d.Max == 0 {
		d.Max = DefaultDiscards
	}
	d.Max = min(d.Max, MaxDiscards)
	found := d.Seen
	if found == nil {
		var err error
		if found, err = e.findDead(ctx, d); err != nil {
			return Discarded{}, err
		}
	}
	out := Discarded{Matched: len(found), Seen: found}
	if out.Matched > d.Max {
		return out, fmt.Errorf("%w: at most %d", ErrBound, d.Max)
	}
	if d.DryRun {
		return out, nil
	}
	var effects, events []Seen
	for _, seen := range found {
		if seen.Event {
			events = append(events, seen)
		} else {
			effects = append(effects, seen)
		}
	}
	for _, part := range []struct {
		seen []Seen
		do   func(context.Context, pgx.Tx, Discard, []Seen) (n int, missed []inbox.ID, err error)
	}{{effects, e.discardEffectsTx}, {events, discardEventsTx}} {
		err := locks.ForEachChunk(ctx, inbox.ErrLocked, part.seen, discardChunk, func(s Seen) inbox.ID { return s.ID }, func(chunk []Seen) (missed []inbox.ID, err error) {
			var n int
			err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
				n, missed, err = part.do(ctx, tx, d, chunk)
				return err
			})
			if err != nil {
				return nil, err
			}
			out.Discarded += n
			out.Changed += len(chunk) - n - len(missed)
			if d.Progress != nil {
				d.Progress(out.Discarded+out.Changed, out.Matched)
			}
			return missed, nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// findDead returns up to d.Max + 1 dead letters, so that the caller notices when there are more than
// d.Max.
func (e *Decider) findDead(ctx context.Context, d Discard) ([]Seen, error) {
	found := []Seen{}
	var seen Seen
	if len(d.IDs) == 0 {
		if err := d.Filter.CheckText(ctx, e.store.Pool()); err != nil {
			return nil, err
		}
		events, never := d.Filter.EventPredicates()
		events.AddIf(never, `false`)
		var find row.Statement
		find.Add(findDead).And(d.Filter.EffectPredicates()).Add(findDeadEvents, d.Max+1).And(events).Add(findDeadLimit, d.Max+1)
		sql, args := find.SQL()
		rows, err := e.store.Pool().Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		_, err = pgx.ForEachRow(rows, []any{&seen.ID, &seen.Event, &seen.Revision}, func() error {
			found = append(found, seen)
			return nil
		})
		return found, err
	}
	var state *string
	var dead *bool
	rows, err := e.store.Pool().Query(ctx, findDeadByID, d.IDs)
	if err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&seen.ID, &seen.Event, &seen.Revision, &state, &dead}, func() error {
		switch {
		case state == nil:
			return fmt.Errorf("%w: neither an effect nor an event has the id %s", inbox.ErrNotFound, seen.ID)
		case dead == nil || !*dead:
			return fmt.Errorf("%w: %s is %s, not a dead letter", inbox.ErrState, seen.ID, *state)
		}
		found = append(found, seen)
		return nil
	})
	return found, err
}

func (e *Decider) discardEffectsTx(ctx context.Context, tx pgx.Tx, d Discard, all []Seen) (n int, missed []inbox.ID, err error) {
	return e.discardTx(ctx, tx, all, d.Actor, d.Reason, func(s inbox.EffectState) bool { return s == inbox.EffectDead })
}

// discardTx skips the effects that still have the revision that was seen and whose state allows it, each
// with an audit entry. missed are the effects that another transaction has locked.
func (e *Decider) discardTx(
	ctx context.Context, tx pgx.Tx, all []Seen, actor, reason string, may func(inbox.EffectState) bool,
) (n int, missed []inbox.ID, err error) {
	held, missed, err := inbox.LockEffectsTx(ctx, tx, inbox.EffectLocks{Effects: seenIDs(all)})
	if err != nil {
		return 0, nil, err
	}
	var group []inbox.Settlement
	for _, seen := range all {
		if h := held[seen.ID]; h != nil && h.Revision == seen.Revision && may(h.State) {
			group = append(group, inbox.Settlement{
				Effect: seen.ID, From: h.State, Version: h.Version, State: inbox.EffectSkipped, Reason: reasons.Discarded,
				RouteID: h.RouteID, SequenceKeyHash: h.SequenceKeyHash,
			})
		}
	}
	if len(group) == 0 {
		return 0, missed, nil
	}
	settled, err := e.store.SettleLocked(ctx, tx, group, nil)
	if err != nil {
		return 0, nil, err
	}
	var b pgx.Batch
	for i, s := range group {
		if !settled[i].Applied {
			return 0, nil, fmt.Errorf("%w: effect %s changed under its lock", inbox.ErrState, s.Effect)
		}
		h := held[s.Effect]
		a := inbox.AuditEntry{
			At: h.Now, Actor: actor, Action: inbox.AuditDiscard, Object: "effect/" + s.Effect.String(), Reason: reason,
			Before: h.Snapshot(), After: inbox.EffectSnapshot{State: inbox.EffectSkipped, Reason: string(reasons.Discarded), Attempts: h.Attempts, Version: h.Version, Revision: h.Revision + 1},
		}
		if err := a.Queue(&b); err != nil {
			return 0, nil, err
		}
	}
	return len(group), missed, tx.SendBatch(ctx, &b).Close()
}

func seenIDs(all []Seen) []inbox.ID {
	ids := make([]inbox.ID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids
}

// The statement locks the events. It skips an event for which a replay has made effects since it was
// seen.
const discardEvents = `
UPDATE inbox_event v
SET discarded_at = now()
WHERE v.id = ANY ($1::uuid[]) AND v.discarded_at IS NULL AND NOT EXISTS (SELECT FROM effect e WHERE e.event_id = v.id)
RETURNING v.id, v.admission, now()`

func discardEventsTx(ctx context.Context, tx pgx.Tx, d Discard, all []Seen) (n int, missed []inbox.ID, err error) {
	ids := seenIDs(all)
	if _, err := tx.Exec(ctx, row.LockOperations, ids); err != nil {
		return 0, nil, err
	}
	rows, err := tx.Query(ctx, discardEvents, ids)
	if err != nil {
		return 0, nil, err
	}
	var (
		b         pgx.Batch
		id        inbox.ID
		admission string
		now       time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &admission, &now}, func() error {
		a := inbox.AuditEntry{
			At: now, Actor: d.Actor, Action: inbox.AuditDiscardEvent, Object: "event/" + id.String(), Reason: d.Reason,
			Before: map[string]string{"admission": admission}, After: map[string]any{"discarded_at": now},
		}
		return a.Queue(&b)
	})
	if err != nil || b.Len() == 0 {
		return 0, nil, err
	}
	return b.Len(), nil, tx.SendBatch(ctx, &b).Close()
}
