package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Resolution is what an indeterminate effect was found to be.
type Resolution string

// The resolutions.
const (
	// ResolveDone: it happened. Nothing more is sent.
	ResolveDone Resolution = "done"
	// ResolveResend: it did not happen, or may happen twice. It gets fresh attempts.
	ResolveResend Resolution = "resend"
)

// Resolve is a decision about an indeterminate effect, with who made it and why.
type Resolve struct {
	Effect ID
	As     Resolution

	// Version fences the decision: it holds for the effect as it was looked at. 0
	// takes the effect as it is.
	Version int

	// CalledAgain resends although a later call repeats the effect's operation: whoever
	// decides knows that it may happen once more.
	CalledAgain bool

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string
}

// ErrState is returned for something that the effect's state does not allow.
var ErrState = errors.New("the effect's state does not allow it")

// effectSnapshot is an effect as an audit entry shows it.
type effectSnapshot struct {
	State       EffectState `json:"state"`
	Reason      string      `json:"reason,omitempty"`
	Attempts    int         `json:"attempts"`
	Version     int         `json:"version"`
	SendStarted *time.Time  `json:"send_started_at,omitempty"`
	BodySHA256  string      `json:"body_sha256,omitempty"`
}

// The event comes first in the order of locks: whoever renders an operation's
// result holds it too, so no result is stored of what is being resolved.
const lockEffectEvent = `
SELECT v.id FROM inbox_event v JOIN effect e ON e.event_id = v.id WHERE e.id = $1 FOR NO KEY UPDATE OF v`

const lockIndeterminate = `
SELECT x.route_id, x.state, coalesce(x.reason, ''), x.attempts, x.version, x.send_started_at, x.sequence_key_hash, ` + calledAgain + `,
    coalesce((SELECT ` + goneRoute + ` FROM route r WHERE r.id = x.route_id), false), now()
FROM effect x
WHERE x.id = $1
FOR UPDATE OF x`

// Who sends again has decided that the target knows nothing of the attempts so
// far: its key window begins anew. The effect may have happened all the same, and
// keeps its key for that.
const forgetUnknown = `UPDATE effect SET unknown_since = NULL, unknown_before = true WHERE id = $1`

// Resolve ends what an attempt left open: the effect becomes done, or gets fresh
// attempts. It goes through settle, and the audit entry is committed with it. It
// returns [ErrNotFound], [ErrState] if the effect is not indeterminate or is no longer
// at r.Version, [ErrCalledAgain], or [ErrRouteGone].
func (e *Effects) Resolve(ctx context.Context, r Resolve) error {
	if r.As != ResolveDone && r.As != ResolveResend {
		return fmt.Errorf("resolving effect %s: unknown resolution %q", r.Effect, r.As)
	}
	if err := explained(r.Actor, r.Reason); err != nil {
		return fmt.Errorf("resolving effect %s: %w", r.Effect, err)
	}
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return e.resolveTx(ctx, tx, r) })
	if err != nil {
		return fmt.Errorf("resolving effect %s: %w", r.Effect, err)
	}
	return nil
}

func (e *Effects) resolveTx(ctx context.Context, tx pgx.Tx, r Resolve) error {
	for _, lock := range []string{lockEffectEvent, lockEffectStream} {
		if _, err := tx.Exec(ctx, lock, r.Effect); err != nil {
			return err
		}
	}
	s := Settlement{Effect: r.Effect, From: EffectIndeterminate, State: EffectDone}
	var (
		before effectSnapshot
		now    time.Time
		again  bool
		gone   bool
	)
	err := tx.QueryRow(ctx, lockIndeterminate, r.Effect).Scan(&s.RouteID, &before.State, &before.Reason,
		&before.Attempts, &before.Version, &before.SendStarted, &s.SequenceKeyHash, &again, &gone, &now)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ErrNotFound
	case err != nil:
		return err
	case before.State != EffectIndeterminate:
		return fmt.Errorf("%w: it is %s, not indeterminate", ErrState, before.State)
	case r.Version != 0 && r.Version != before.Version:
		return fmt.Errorf("%w: it has changed since it was looked at", ErrState)
	case gone && r.As == ResolveResend:
		return ErrRouteGone
	case again && r.As == ResolveResend && !r.CalledAgain:
		return ErrCalledAgain
	}
	after := effectSnapshot{State: EffectDone, Attempts: before.Attempts, Version: before.Version, SendStarted: before.SendStarted}
	action := AuditResolveDone
	s.Version = before.Version
	var wakes []Wake
	if r.As == ResolveResend {
		if _, err := tx.Exec(ctx, forgetUnknown, r.Effect); err != nil {
			return err
		}
		ids, err := e.reserveTx(ctx, tx, 1)
		if err != nil {
			return err
		}
		s.State, s.Rearm, s.Trigger, s.JobID, s.Reason = EffectPending, true, TriggerManual, ids[0], ReasonResent
		wakes = []Wake{{JobID: ids[0], Kind: WakeEffect, ID: r.Effect}}
		after = effectSnapshot{State: EffectPending, Reason: string(ReasonResent), Version: before.Version + 1}
		action = AuditResolveResend
	}
	out, err := e.settle(ctx, tx, []Settlement{s}, wakes)
	if err != nil {
		return err
	}
	if !out[0].Applied {
		return fmt.Errorf("%w: it has changed meanwhile", ErrState)
	}
	return auditTx(ctx, tx, audit{
		at: now, actor: r.Actor, action: action, object: "effect/" + r.Effect.String(), reason: r.Reason, before: before, after: after,
	})
}
