package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/session"
)

// Runner is a replay that a process works on, step by step, on a connection of
// its own. The connection has a session lock, so that a process that dies is missed
// at once; that a step is made once does not depend on it.
type Runner struct {
	replays *Store
	conn    *pgx.Conn
	id      inbox.ID
}

// Two that work on one replay take turns anyway: one that finds the lock taken goes
// on without it.
const holdReplay = `SELECT pg_try_advisory_lock($1::int, hashtext($2::uuid::text))`

// Acquire opens a connection for the steps of a replay, until Release. It is none of
// the pool's, since it is kept while the replay's rate says to wait.
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

// Step is [Store.Step] on the held connection, at no more than so many items a second;
// 0 leaves it to the replay's own rate.
func (h *Runner) Step(ctx context.Context, atMost float32) (Step, error) {
	return h.replays.step(ctx, h.conn, h.id, atMost)
}

// releaseTimeout bounds how long saying goodbye to the server may take.
const releaseTimeout = 5 * time.Second

// Release closes the connection, and with it the lock.
func (h *Runner) Release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_ = h.conn.Close(ctx) // nothing is lost with it: each step has committed
}

// A session of another role that has the lock works on no replay.
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
	// Held: there is a process that works on it at this moment.
	Held bool
}

// Running gives the replays that are running, at most so many.
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
