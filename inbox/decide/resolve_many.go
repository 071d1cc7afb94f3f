package decide

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/locks"
	"github.com/oncegate/oncegate/inbox/read"
)

// ResolveMany is one decision about many indeterminate effects.
type ResolveMany struct {
	// Effects are those that were counted and shown to the operator. An effect that is no longer
	// indeterminate, or has changed since, is left alone.
	Effects []read.Unknown
	As      Resolution

	// Actor and Reason go into the audit entry of each effect. Both are required.
	Actor, Reason string

	// Progress, if set, is called after each transaction with how many effects have been examined.
	Progress func(done, of int)
}

// ResolvedMany is the outcome of a [ResolveMany].
type ResolvedMany struct {
	// Resolved is how many effects are done or sent again now.
	Resolved int `json:"resolved"`
	// Changed is how many had changed since they were counted and were left alone.
	Changed int `json:"changed"`
	// CalledAgain is how many were not sent again because a later call repeats their operation. Each
	// of them is decided alone: see [Resolve.CalledAgain].
	CalledAgain int `json:"called_again"`
	// Gone is how many were not sent again because their route is gone, so that no process would
	// carry them out.
	Gone int `json:"gone"`
}

// Looked is how many effects have been examined.
func (r ResolvedMany) Looked() int { return r.Resolved + r.Changed + r.CalledAgain + r.Gone }

// resolveChunk is how many effects one transaction resolves.
const resolveChunk = 200

// ResolveMany resolves effects as [Effects.Resolve] does, a few in each transaction, each with its
// own audit entry. A call that is interrupted has resolved the effects that it counts. The rest is
// still indeterminate, and you can make the same call again.
func (e *Decider) ResolveMany(ctx context.Context, r ResolveMany) (ResolvedMany, error) {
	var out ResolvedMany
	if r.As != ResolveDone && r.As != ResolveResend {
		return out, fmt.Errorf("resolving effects: unknown resolution %q", r.As)
	}
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return out, fmt.Errorf("resolving effects: %w", err)
	}
	err := locks.ForEachChunk(ctx, inbox.ErrLocked, r.Effects, resolveChunk, func(u read.Unknown) inbox.ID { return u.Effect }, func(chunk []read.Unknown) (missed []inbox.ID, err error) {
		var n, again, gone int
		err = pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
			n, again, gone, missed, err = e.resolveManyTx(ctx, tx, r, chunk)
			return err
		})
		if err != nil {
			return nil, err
		}
		out.Resolved += n
		out.CalledAgain += again
		out.Gone += gone
		out.Changed += len(chunk) - n - again - gone - len(missed)
		if r.Progress != nil {
			r.Progress(out.Looked(), len(r.Effects))
		}
		return missed, nil
	})
	if err != nil {
		return out, fmt.Errorf("resolving effects: %w", err)
	}
	return out, nil
}

func (e *Decider) resolveManyTx(ctx context.Context, tx pgx.Tx, r ResolveMany, chunk []read.Unknown) (resolved, again, gone int, missed []inbox.ID, err error) {
	ids := make([]inbox.ID, len(chunk))
	for i, u := range chunk {
		ids[i] = u.Effect
	}
	held, missed, err := inbox.LockEffectsTx(ctx, tx, inbox.EffectLocks{Effects: ids})
	if err != nil {
		return 0, 0, 0, nil, err
	}
	var found []*inbox.LockedEffect
	for _, u := range chunk {
		switch h := held[u.Effect]; {
		case slices.Contains(missed, u.Effect):
		case h == nil || h.State != inbox.EffectIndeterminate || h.Version != u.Version || h.Revision != u.Revision:
		case h.RouteGone && r.As == ResolveResend:
			gone++
		case h.CalledAgain && r.As == ResolveResend:
			again++
		default:
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return 0, again, gone, missed, nil
	}
	if err := e.resolveLockedTx(ctx, tx, decision{as: r.As, actor: r.Actor, reason: r.Reason}, found); err != nil {
		return 0, 0, 0, nil, err
	}
	return len(found), again, gone, missed, nil
}
