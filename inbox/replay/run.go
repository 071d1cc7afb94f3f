package replay

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
)

// StartRequest asks for a planned replay to be run. Only Digest and Rate are optional.
type StartRequest struct {
	ID inbox.ID

	// Digest is the digest that the plan showed, or at least its first 8 characters. Start
	// runs only a plan with this digest. If it is empty, the caller must have made sure.
	Digest string

	// Actor and Reason go into the audit.
	Actor, Reason string

	// Rate is how many items a second are taken at most. A worker takes fewer if live
	// deliveries at the gate of its process would have to wait. 0 means no limit.
	Rate float32
}

// ErrState is returned for a step that the replay's state does not allow.
var ErrState = errors.New("the replay's state does not allow it")

// ErrDigest is returned when the digest is not the plan's.
var ErrDigest = errors.New("the digest is not the plan's")

// MinDigest is the least number of hex characters of a digest that you must give.
const MinDigest = 8

const markRunning = `
UPDATE replay
SET state = 'running', started_at = now(), next_at = now(), reason = $2, rate = nullif($3::real, 0), job_id = $4
WHERE id = $1 AND state = 'planned'`

const markExpired = `UPDATE replay SET state = 'expired', finished_at = now() WHERE id = $1`

const rewakeReplay = `UPDATE replay SET job_id = $2 WHERE id = $1`

// Start runs a plan that has the given digest and has not expired, and returns the replay.
// If the replay is already running, Start inserts a new job, because the old one may be lost; each item
// is still taken once. Start returns [inbox.ErrNotFound], [ErrDigest],
// [inbox.ErrUnexplained], or [ErrState] if the replay can no longer be run.
func (r *Store) Start(ctx context.Context, s StartRequest) (*Replay, error) {
	if err := inbox.CheckExplanation(s.Actor, s.Reason); err != nil {
		return nil, fmt.Errorf("running replay %s: %w", s.ID, err)
	}
	if s.Rate < 0 || s.Rate > 1e6 {
		return nil, fmt.Errorf("running replay %s: the rate must be from 0 to 1,000,000 a second", s.ID)
	}
	expired := false
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) (err error) {
		expired, err = r.startTx(ctx, tx, s)
		return err
	})
	if err == nil && expired {
		err = fmt.Errorf("%w: the plan has expired; make a new one", ErrState)
	}
	if err != nil {
		return nil, fmt.Errorf("running replay %s: %w", s.ID, err)
	}
	return r.Status(ctx, s.ID)
}

func (r *Store) startTx(ctx context.Context, tx pgx.Tx, s StartRequest) (expired bool, err error) {
	replay, err := oneReplay(ctx, tx, lockReplay, s.ID)
	if err != nil {
		return false, err
	}
	if err := checkDigest(replay.Digest, s.Digest); err != nil {
		return false, err
	}
	switch {
	case replay.State == Running:
		if err := r.wakeTx(ctx, tx, s.ID); err != nil {
			return false, err
		}
		return false, inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
			At: replay.Now, Actor: s.Actor, Action: inbox.AuditReplayRun, Object: "replay/" + s.ID.String(), Reason: s.Reason,
			Before: map[string]any{"state": replay.State, "acted": replay.Summary.Acted()}, After: map[string]any{"state": replay.State, "woken": true},
		})
	case replay.State == Expired:
		return true, nil
	case replay.State != Planned:
		return false, fmt.Errorf("%w: it is %s, not planned", ErrState, replay.State)
	case replay.ExpiresAt != nil && !replay.Now.Before(*replay.ExpiresAt):
		_, err := tx.Exec(ctx, markExpired, s.ID)
		return true, err
	}
	sum, err := itemsDigest(ctx, tx, s.ID)
	if err != nil {
		return false, err
	}
	if sum != replay.Digest {
		return false, fmt.Errorf("%w: its items are not those that were planned", ErrDigest)
	}
	ids, err := r.store.ReserveTx(ctx, tx, 1)
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, markRunning, s.ID, s.Reason, s.Rate, ids[0]); err != nil {
		return false, err
	}
	if err := r.enqueueTx(ctx, tx, s.ID, ids[0]); err != nil {
		return false, err
	}
	return false, inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: replay.Now, Actor: s.Actor, Action: inbox.AuditReplayRun, Object: "replay/" + s.ID.String(), Reason: s.Reason,
		Before: map[string]any{"state": replay.State}, After: map[string]any{"state": Running, "digest": sum, "to_do": replay.Summary.ToDo, "rate": s.Rate},
	})
}

// checkDigest returns [ErrDigest] unless given is empty or the beginning of the digest.
func checkDigest(digest, given string) error {
	given = strings.ToLower(strings.TrimSpace(given))
	switch {
	case given == "":
		return nil
	case len(given) < MinDigest:
		return fmt.Errorf("%w: give at least its first %d characters", ErrDigest, MinDigest)
	case len(given) > len(digest) || subtle.ConstantTimeCompare([]byte(digest[:len(given)]), []byte(given)) == 0:
		return ErrDigest
	}
	return nil
}

// The digest is computed from the stored items, so that Start notices any change of them
// since the plan.
const readItems = `
SELECT position, effect_id, asked_id, event_id, coalesce(route_id, 0), coalesce(effect_version, 0), action, coalesce(left_out, ''), coalesce(verdict, ''),
    coalesce(effect_state, ''), coalesce(effect_reason, ''), coalesce(effect_revision, 0)
FROM replay_item
WHERE replay_id = $1
ORDER BY position`

func itemsDigest(ctx context.Context, tx pgx.Tx, id inbox.ID) (string, error) {
	rows, err := tx.Query(ctx, readItems, id)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	var it planItem
	_, err = pgx.ForEachRow(rows, []any{
		&it.position, &it.effect, &it.asked, &it.event, &it.route, &it.version, &it.action, &it.leftOut, &it.verdict,
		&it.state, &it.reason, &it.revision,
	}, func() error {
		it.digest(digest)
		return nil
	})
	return hex.EncodeToString(digest.Sum(nil)), err
}

func (r *Store) enqueueTx(ctx context.Context, tx pgx.Tx, id inbox.ID, jobID int64) error {
	var b pgx.Batch
	r.store.Enqueuer().EnqueueTx(&b, []inbox.Wake{{JobID: jobID, Kind: inbox.WakeReplay, ID: id}})
	return tx.SendBatch(ctx, &b).Close()
}

func (r *Store) wakeTx(ctx context.Context, tx pgx.Tx, id inbox.ID) error {
	ids, err := r.store.ReserveTx(ctx, tx, 1)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, rewakeReplay, id, ids[0]); err != nil {
		return err
	}
	return r.enqueueTx(ctx, tx, id, ids[0])
}

// Wake inserts a new job for a running replay whose job is lost. It does nothing if the
// replay is not running.
func (r *Store) Wake(ctx context.Context, id inbox.ID) error {
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		replay, err := oneReplay(ctx, tx, lockReplay, id)
		if errors.Is(err, inbox.ErrNotFound) || err == nil && replay.State != Running {
			return nil
		}
		if err != nil {
			return err
		}
		return r.wakeTx(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("waking replay %s: %w", id, err)
	}
	return nil
}

const expireReplays = `
UPDATE replay
SET state = CASE state WHEN 'planned' THEN 'expired' ELSE 'cancelled' END, finished_at = now()
WHERE state IN ('planning', 'planned') AND expires_at <= now()`

// Expire expires the plans that were not run in time, and cancels those that were not
// complete in time.
func (r *Store) Expire(ctx context.Context) error {
	if _, err := r.pool.Exec(ctx, expireReplays); err != nil {
		return fmt.Errorf("expiring replays: %w", err)
	}
	return nil
}

// CancelRequest asks for a replay to end. All of it is required.
type CancelRequest struct {
	ID            inbox.ID
	Actor, Reason string
}

const markCancelled = `UPDATE replay SET state = 'cancelled', finished_at = now() WHERE id = $1`

// Cancel ends a replay that is being planned, is planned or runs. The steps taken stay
// done, and the remaining effects keep their states. Cancel waits for a step in progress. It
// returns [inbox.ErrNotFound], [inbox.ErrUnexplained], or [ErrState] if every item was taken or the replay has ended.
func (r *Store) Cancel(ctx context.Context, c CancelRequest) (*Replay, error) {
	err := inbox.CheckExplanation(c.Actor, c.Reason)
	if err == nil {
		err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			replay, err := oneReplay(ctx, tx, lockReplay, c.ID)
			if err != nil {
				return err
			}
			switch replay.State {
			case Planning, Planned, Running:
			case Queued, Cancelled, Done, Expired:
				return fmt.Errorf("%w: it is %s", ErrState, replay.State)
			}
			if _, err := tx.Exec(ctx, markCancelled, c.ID); err != nil {
				return err
			}
			return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
				At: replay.Now, Actor: c.Actor, Action: inbox.AuditReplayCancel, Object: "replay/" + c.ID.String(), Reason: c.Reason,
				Before: map[string]any{"state": replay.State, "acted": replay.Summary.Acted(), "to_do": replay.Summary.ToDo},
				After:  map[string]any{"state": Cancelled},
			})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("cancelling replay %s: %w", c.ID, err)
	}
	return r.Status(ctx, c.ID)
}

// Filter narrows a list of replays; a zero field does not.
type Filter struct {
	State State
	// Tenant takes the replays whose scope is narrowed to this tenant.
	Tenant string
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// List returns one page of replays, newest first. It returns [read.ErrCursor] for a cursor of another list or filter.
func (r *Store) List(ctx context.Context, f Filter) (read.Page[Replay], error) {
	q := read.PageQuery[Replay, inbox.ID]{
		List: "replays", Filter: []string{string(f.State), f.Tenant}, Cursor: f.Cursor, Limit: f.Limit,
		Place: func(r *Replay) inbox.ID { return r.ID },
		Read: func(ctx context.Context, from, to inbox.ID, limit int) ([]Replay, error) {
			var p row.Predicates
			switch f.State {
			case Queued, Done:
				p.AddIf(true, `replay.state IN ('queued', 'done') AND `+presentState+` = ?`, string(f.State))
			default:
				p.AddIf(f.State != "", `state = ?`, string(f.State))
			}
			p.AddIf(f.Tenant != "", `scope->>'tenant' = ?`, f.Tenant)
			p.AddIf(!from.IsZero(), `id < ?`, from)
			p.AddIf(!to.IsZero(), `id >= ?`, to)
			var s row.Statement
			s.Add(`SELECT `+replayColumns+` FROM replay`).Where(p).Add(` ORDER BY id DESC LIMIT ?`, limit)
			return row.Collect(ctx, r.pool, &s, scanReplay)
		},
		Budget: r.budget,
	}
	if f.State != "" || f.Tenant != "" {
		q.Edge = func(ctx context.Context, from inbox.ID, rows int) (at inbox.ID, searched time.Time, err error) {
			var p row.Predicates
			p.AddIf(!from.IsZero(), `id < ?`, from)
			var s row.Statement
			s.Add(`SELECT id FROM replay`).Where(p).Add(` ORDER BY id DESC OFFSET ? - 1 LIMIT 1`, rows)
			_, err = row.QueryOne(ctx, r.pool, &s, &at)
			return at, at.Time(), err
		}
	}
	page, err := read.NextPage(ctx, q)
	if err != nil {
		return page, fmt.Errorf("listing replays: %w", err)
	}
	return page, nil
}
