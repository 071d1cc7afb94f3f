package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/session"
)

// Runner takes the steps of one replay on a dedicated connection. The connection has a
// session lock, so that the sweeper notices soon when the process dies. The lock is not
// needed to take each step once.
type Runner struct {
	replays *Store
	conn    *pgx.Conn
	id      inbox.ID
}

// A process that does not get the lock continues without it, because the steps lock the
// replay's row.
const holdReplay = `SELECT pg_try_advisory_lock($1::int, hashtext($2::uuid::text))`

// Acquire opens a connection for the steps of a replay. Call Release to close it. It does
// not count against the pool, because it stays open while the replay's rate delays the next step.
func (r *Store) Acquire(ctx context.Context, id inbox.ID) (*Runner, error) {
	conn, err := session.Connect(ctx, r.pool)
	if err != nil {
		return nil, fmt.Errorf("holding replay %s: %w", id, err)
	}
	h := &Runner{replays: r, conn: conn, id: id}
	if _, err := conn.Exec(ctx, holdReplay, advisory.Replay, id); err != nil {
		h.Release()
		return nil, fmt.Errorf("holding replay %s: %w", id, err)
	}
	return h, nil
}

// Step is [Store.Step] on the Runner's connection, with at most atMost items a second; 0
// leaves only the replay's own rate.
func (h *Runner) Step(ctx context.Context, atMost float32) (Step, error) {
	return h.replays.step(ctx, h.conn, h.id, atMost)
}

// releaseTimeout is how long closing the connection may take.
const releaseTimeout = 5 * time.Second

// Release closes the connection, which releases the lock.
func (h *Runner) Release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_ = h.conn.Close(ctx) // nothing is lost: each step has committed
}

// A lock of another role's session does not count, because that session works on no replay.
const runningReplays = `
SELECT p.id, coalesce(p.job_id, 0), EXISTS (
    SELECT FROM pg_locks l
    JOIN pg_stat_activity a ON a.pid = l.pid AND a.usename = session_user
    WHERE l.locktype = 'advisory' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.classid = $1::int::oid AND l.objid::bigint = hashtext(p.id::text)::bigint & 4294967295 AND l.objsubid = 2)
FROM replay p
WHERE p.state = 'running'
ORDER BY p.id
LIMIT $2`

// RunningReplay is a replay that is being worked on, or should be.
type RunningReplay struct {
	ID inbox.ID
	// JobID is the job that works on it.
	JobID int64
	// Held: a session has the lock of the replay at this moment.
	Held bool
}

// Running returns the running replays, at most limit of them.
func (r *Store) Running(ctx context.Context, limit int) ([]RunningReplay, error) {
	rows, err := r.pool.Query(ctx, runningReplays, advisory.Replay, limit)
	if err != nil {
		return nil, fmt.Errorf("reading running replays: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[RunningReplay])
	if err != nil {
		return nil, fmt.Errorf("reading running replays: %w", err)
	}
	return out, nil
}
