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
	"github.com/oncegate/oncegate/inbox/reasons"
)

// StreamPass is how an operator lets a stream proceed that cannot proceed by itself.
type StreamPass string

// The ways.
const (
	// StreamSkip abandons what the stream waits for: the missing numbers, or the blocking
	// effect, which is skipped permanently.
	StreamSkip StreamPass = "skip"
	// StreamUnblock releases the effects that wait for the blocking effect. The blocking
	// effect keeps its state; if it is sent again later, it runs out of order.
	StreamUnblock StreamPass = "unblock"
)

// PassStream is a decision about a stream that cannot proceed, with its actor and reason.
type PassStream struct {
	Stream int64
	As     StreamPass

	// Blocker and MissingTo fence the decision: it applies only while the stream waits for
	// them. Take them from [read.StreamDetail]; with both empty there is nothing to pass.
	Blocker   inbox.ID
	MissingTo string

	// Revision is the blocker's revision that the operator saw; nil accepts any revision.
	Revision *int

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string
}

// ErrStream is returned for something that a stream's state does not allow.
var ErrStream = errors.New("the stream's state does not allow it")

// streamSnapshot is a stream as an audit entry shows it.
type streamSnapshot struct {
	Applied   string     `json:"applied,omitempty"`
	GapSince  *time.Time `json:"gap_since,omitempty"`
	BlockedBy *inbox.ID  `json:"blocked_by,omitempty"`
	// Missing are the numbers that were abandoned.
	Missing string `json:"missing,omitempty"`
	// Effect is the blocking effect that was skipped or passed.
	Effect *inbox.ID `json:"effect,omitempty"`
	// Revision is the effect's revision after the decision.
	Revision int `json:"revision,omitempty"`
}

// PassStream lets a stream proceed. It skips an effect through settle, wakes the next effect
// of the stream, and writes the audit entry, all in one transaction. It returns
// [inbox.ErrNotFound], [ErrStream] if the stream no longer waits for the blocker or the numbers, or
// cannot proceed that way, or [inbox.ErrLocked] if another transaction keeps one of its effects
// locked.
func (e *Decider) PassStream(ctx context.Context, p PassStream) error {
	if p.As != StreamSkip && p.As != StreamUnblock {
		return fmt.Errorf("passing stream %d: unknown way %q", p.Stream, p.As)
	}
	if err := inbox.CheckExplanation(p.Actor, p.Reason); err != nil {
		return fmt.Errorf("passing stream %d: %w", p.Stream, err)
	}
	// A worker may have locked the next effect of the stream at this moment. Each try
	// compares the stream with the decision again.
	err := locks.Retry(ctx, inbox.ErrLocked, func() error {
		return pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) error { return e.passStreamTx(ctx, tx, p) })
	})
	if err != nil {
		return fmt.Errorf("passing stream %d: %w", p.Stream, err)
	}
	return nil
}

const lockStream = `
SELECT s.route_id, s.key_hash, coalesce(s.applied::text, ''), s.gap_since, s.blocked_by, now()
FROM stream s
WHERE s.id = $1
FOR UPDATE`

// The event comes first in the order of locks. Rendering an operation's result locks it too,
// so that no result is stored while one of its effects is being resolved.
const lockEffectEvent = `
SELECT v.id FROM inbox_event v JOIN effect e ON e.event_id = v.id WHERE e.id = $1 FOR NO KEY UPDATE OF v`

// lockedStream is a stream while a decision about it is carried out.
type lockedStream struct {
	route  int32
	hash   []byte
	before streamSnapshot
	now    time.Time
}

func (e *Decider) passStreamTx(ctx context.Context, tx pgx.Tx, p PassStream) error {
	if !p.Blocker.IsZero() {
		// The event comes before the stream in the order of locks.
		if _, err := tx.Exec(ctx, lockEffectEvent, p.Blocker); err != nil {
			return err
		}
	}
	var s lockedStream
	err := tx.QueryRow(ctx, lockStream, p.Stream).Scan(&s.route, &s.hash, &s.before.Applied, &s.before.GapSince, &s.before.BlockedBy, &s.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return inbox.ErrNotFound
	}
	if err != nil {
		return err
	}
	action := inbox.AuditStreamSkip
	var after streamSnapshot
	blocked := s.before.BlockedBy != nil
	switch {
	case blocked != !p.Blocker.IsZero() || blocked && *s.before.BlockedBy != p.Blocker:
		return fmt.Errorf("%w: it has changed since it was looked at", ErrStream)
	case blocked && p.As == StreamSkip:
		after, err = e.skipBlockerTx(ctx, tx, &s, p)
	case blocked:
		action = inbox.AuditStreamUnblock
		after, err = e.unblockTx(ctx, tx, &s, p)
	case p.As == StreamUnblock:
		return fmt.Errorf("%w: no effect blocks it", ErrStream)
	case s.before.GapSince == nil || p.MissingTo == "":
		return fmt.Errorf("%w: it waits for nothing", ErrStream)
	default:
		after, err = e.giveUpTx(ctx, tx, &s, p)
	}
	if err != nil {
		return err
	}
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: s.now, Actor: p.Actor, Action: action, Object: inbox.StreamObject(p.Stream), Reason: p.Reason, Before: s.before, After: after,
	})
}

const lockBlocker = `
SELECT state, version, revision, coalesce(sequence_number::text, '')
FROM effect
WHERE id = $1
FOR UPDATE`

// skipBlockerTx settles the effect that blocks as skipped.
func (e *Decider) skipBlockerTx(ctx context.Context, tx pgx.Tx, s *lockedStream, p PassStream) (streamSnapshot, error) {
	out := inbox.Settlement{Effect: p.Blocker, State: inbox.EffectSkipped, Reason: reasons.Discarded, RouteID: s.route, SequenceKeyHash: s.hash}
	var number string
	var revision int
	err := tx.QueryRow(ctx, lockBlocker, p.Blocker).Scan(&out.From, &out.Version, &revision, &number)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return streamSnapshot{}, inbox.ErrNotFound
	case err != nil:
		return streamSnapshot{}, err
	case !out.From.AtRest():
		return streamSnapshot{}, fmt.Errorf("%w: the effect that blocked it is %s", ErrStream, out.From)
	case p.Revision != nil && *p.Revision != revision:
		return streamSnapshot{}, fmt.Errorf("%w: the effect that blocks it has changed since it was looked at", ErrStream)
	}
	settled, err := e.store.SettleLocked(ctx, tx, []inbox.Settlement{out}, nil)
	if err != nil {
		return streamSnapshot{}, err
	}
	if !settled[0].Applied {
		return streamSnapshot{}, fmt.Errorf("%w: it has changed meanwhile", ErrStream)
	}
	return streamSnapshot{Applied: s.before.Applied, Effect: &p.Blocker, Revision: revision + 1}, nil
}

const moveStream = `
UPDATE stream
SET applied = $2::numeric, gap_since = NULL, warned_at = NULL, blocked_by = NULL, updated_at = now()
WHERE id = $1`

// unblockTx moves the applied number past the blocking effect. In mode arrival there is no
// such number: an effect that may still land blocks all later ones.
func (e *Decider) unblockTx(ctx context.Context, tx pgx.Tx, s *lockedStream, p PassStream) (streamSnapshot, error) {
	var state inbox.EffectState
	var version, revision int
	var number string
	if err := tx.QueryRow(ctx, lockBlocker, p.Blocker).Scan(&state, &version, &revision, &number); err != nil {
		return streamSnapshot{}, err
	}
	if !state.AtRest() {
		return streamSnapshot{}, fmt.Errorf("%w: the effect that blocked it is %s", ErrStream, state)
	}
	if p.Revision != nil && *p.Revision != revision {
		return streamSnapshot{}, fmt.Errorf("%w: the effect that blocks it has changed since it was looked at", ErrStream)
	}
	if s.before.Applied == "" || number == "" {
		return streamSnapshot{}, fmt.Errorf("%w: what blocks it may still happen; resolve it, or skip it", ErrStream)
	}
	if _, err := tx.Exec(ctx, row.RaiseRevisions, []inbox.ID{p.Blocker}); err != nil {
		return streamSnapshot{}, err
	}
	return streamSnapshot{Applied: number, Effect: &p.Blocker, Revision: revision + 1}, e.moveStreamTx(ctx, tx, s, p.Stream, number)
}

// giveUpTx moves the applied number to the last missing number before the first recorded one.
func (e *Decider) giveUpTx(ctx context.Context, tx pgx.Tx, s *lockedStream, p PassStream) (streamSnapshot, error) {
	var first, last string
	err := tx.QueryRow(ctx, row.MissingNumbers, p.Stream).Scan(&first, &last)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && last != p.MissingTo {
		return streamSnapshot{}, fmt.Errorf("%w: the missing numbers have changed since you looked at them", ErrStream)
	}
	if err != nil {
		return streamSnapshot{}, err
	}
	missing := first
	if last != first {
		missing += " to " + last
	}
	return streamSnapshot{Applied: last, Missing: missing}, e.moveStreamTx(ctx, tx, s, p.Stream, last)
}

// moveStreamTx sets the applied number of a stream, and decides about its next effects.
func (e *Decider) moveStreamTx(ctx context.Context, tx pgx.Tx, s *lockedStream, stream int64, number string) error {
	if _, err := tx.Exec(ctx, moveStream, stream, number); err != nil {
		return err
	}
	return e.store.AdvanceStreamTx(ctx, tx, s.route, s.hash)
}
