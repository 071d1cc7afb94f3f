package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/sleep"
)

// SendStart is the information that must be stored before an attempt, in case its end is
// never seen.
type SendStart struct {
	// Rendered is what will be sent; nil if it is the body as received, or stored already.
	Rendered []byte

	// Replace overwrites the stored request with Rendered, even if Rendered is nil. It is
	// only for an effect of which no attempt can have happened.
	Replace bool

	// Began records that sending began, because the target cannot deduplicate.
	Began bool
}

type sendStart struct {
	effect, token ID
	rendered      []byte
	replace       bool
	started       bool
	keyID         *int32
}

// StartSend commits the SendStart before the first byte leaves. It reports false if the claim is no longer the
// caller's: nothing may be sent then. At a target that cannot deduplicate it also waits until the standbys that answer
// have received the effect, so that a promoted standby refuses the event if its sender delivers it again. It does not
// wait for a standby that stays late for standbyPatience or a quarter of the lease.
func (e *Effects) StartSend(ctx context.Context, claim *Claim, s SendStart) (bool, error) {
	sealed, keyID := e.keys.Seal(place.Rendered(claim.Effect), s.Rendered)
	start := sendStart{effect: claim.Effect, token: claim.Token, rendered: sealed, keyID: keyID, replace: s.Replace, started: s.Began}
	timeline := e.standbys.Timeline()
	written, err := retryWhileLocked(ctx, func() (sendStartRow, bool, error) {
		out, err := e.starts.Do(ctx, start)
		return out, out.locked, err
	})
	if err == nil && written.held && s.Began {
		err = e.standbys.Received(ctx, timeline, written.lsn, min(standbyPatience, e.routes[claim.RouteID].Lease/4))
	}
	if err != nil {
		return false, fmt.Errorf("starting the send of effect %s: %w", claim.Effect, err)
	}
	return written.held, nil
}

// Standbys are the servers to which the database may fail over. [session.Standbys] implements it.
type Standbys interface {
	// Timeline is the highest timeline of the database that the process has seen.
	Timeline() uint32

	// Received waits until the standbys have received the write-ahead log of the timeline up to a position, but not longer for one of
	// them than within. It returns an error if the database has moved to another timeline.
	Received(ctx context.Context, timeline uint32, lsn uint64, within time.Duration) error
}

// standbyPatience is how long a send waits for a standby that answers and does not receive the log.
const standbyPatience = 3 * time.Second

// The first rendered request is kept, so that every attempt sends the same bytes. The statement does not wait for a row
// that another transaction has locked, and does not return it. The returned position in the write-ahead log is after
// the claim's commit.
var startSends = `
WITH reached AS MATERIALIZED (
    SELECT e.id, a.token, a.rendered, a.replace, a.started, a.key_id, e.lease_token = a.token AND e.lease_until > now() AS held
    FROM unnest(` + startColumns.Arrays() + `) AS a (` + startColumns.Names() + `)
    JOIN effect e ON e.id = a.id
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
started AS (
    UPDATE effect e
    SET rendered = CASE WHEN h.replace THEN h.rendered ELSE coalesce(e.rendered, h.rendered) END,
        rendered_key_id = CASE WHEN e.rendered IS NULL OR h.replace THEN h.key_id ELSE e.rendered_key_id END,
        send_started_at = CASE WHEN h.started THEN now() ELSE e.send_started_at END
    FROM reached h
    WHERE e.id = h.id AND h.held
    RETURNING e.lease_token)
SELECT lease_token, true, (pg_current_wal_insert_lsn() - '0/0')::bigint FROM started
UNION ALL
SELECT token, false, 0 FROM reached WHERE held IS NOT TRUE`

var startColumns = row.ColumnsFrom(1,
	row.UUID("id", func(a *sendStart) ID { return a.effect }),
	row.UUID("token", func(a *sendStart) ID { return a.token }),
	row.Bytes("rendered", func(a *sendStart) []byte { return a.rendered }),
	row.Bool("replace", func(a *sendStart) bool { return a.replace }),
	row.Bool("started", func(a *sendStart) bool { return a.started }),
	row.Int("key_id", func(a *sendStart) *int32 { return a.keyID }),
)

// sendStartRow is the answer for a claimed effect's row: held says whether the claim is still valid; locked says that
// this is unknown, because another transaction has locked the row.
type sendStartRow struct {
	held, locked bool
	lsn          uint64
}

func (e *Effects) startGroup(ctx context.Context, asks []sendStart) ([]sendStartRow, error) {
	rows, err := e.pool.Query(ctx, startSends, startColumns.Args(asks)...)
	if err != nil {
		return nil, err
	}
	answers := make(map[ID]sendStartRow, len(asks))
	var token ID
	var held bool
	var lsn int64
	if _, err := pgx.ForEachRow(rows, []any{&token, &held, &lsn}, func() error {
		answers[token] = sendStartRow{held: held, lsn: uint64(lsn)}
		return nil
	}); err != nil {
		return nil, err
	}
	out := make([]sendStartRow, len(asks))
	for i, a := range asks {
		answer, reached := answers[a.token]
		answer.locked = !reached // the row of a claimed effect is never deleted
		out[i] = answer
	}
	return out, nil
}

// lockPatience is how long an attempt waits for its effect's row.
const lockPatience = 2 * time.Second

// retryWhileLocked asks again while another transaction has the lock. After lockPatience it returns [ErrLocked].
func retryWhileLocked[T any](ctx context.Context, ask func() (out T, locked bool, err error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		out, locked, err := ask()
		if err != nil || !locked {
			return out, err
		}
		if sleep.For(ctx, pause) != nil {
			return out, ErrLocked
		}
	}
}
