package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Verdict says whether the data on a timeline is complete. Stored: never change.
type Verdict string

// The verdicts. Stored: never change.
const (
	// First means that the installation began here.
	First Verdict = "first"
	// Undecided means that the timeline has begun, and that no process has decided yet whether data is missing.
	Undecided Verdict = "undecided"
	// Whole means that nothing is missing after a failover.
	Whole Verdict = "whole"
	// Restored means that the last commits before may be missing.
	Restored Verdict = "restored"
	// Undeclared means that the data was copied from another cluster or restored from a dump, and that no operator has said what it is.
	Undeclared Verdict = "undeclared"
	// Moved means that an operator declared the copy to be the installation, with everything that was there.
	Moved Verdict = "moved"
	// Copied means that an operator declared the data to be a copy. Oncegate runs no effects on it.
	Copied Verdict = "copy"
)

// Row is the history's entry about the timeline that the server is on.
type Row struct {
	ID int64 `json:"-"`

	// System is the cluster's identifier, and Timeline counts its promotions.
	System   int64  `json:"system_identifier,string"`
	Timeline uint32 `json:"timeline"`

	Verdict Verdict `json:"verdict"`

	// SwitchedAt is the position up to which the previous timeline was replayed; 0 if that is not known.
	SwitchedAt uint64 `json:"-"`

	// LastJob is the highest number of a job when the timeline began.
	LastJob int64 `json:"-"`

	// Marked is how many effects became indeterminate because they may have happened.
	Marked int64 `json:"marked"`

	BeganAt   time.Time  `json:"began_at"`
	DecidedAt *time.Time `json:"decided_at,omitempty"`

	// FinishedAt is the time since which effects may run; nil while they may not.
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Open reports whether effects may run.
func (r *Row) Open() bool { return r.FinishedAt != nil }

// ErrUndeclared says that the database is a copy, and which command declares what it is.
var ErrUndeclared = errors.New("the database was copied or restored from a dump, and nothing is carried out until you declare what it is: " +
	"run `oncegate history declare --as moved | restored | copy --reason TEXT`")

// ErrCopy says that an operator declared the database to be a copy.
var ErrCopy = errors.New("the database was declared to be a copy: nothing is carried out; `oncegate history declare` changes that")

// ErrSettling says that a later timeline has begun, and that Oncegate is checking which effects may have happened.
var ErrSettling = errors.New("the database's history has changed, and no effect is carried out until the missing part is known")

// Err returns why no effect may run; nil if effects may run.
func (r *Row) Err() error {
	switch {
	case r.Verdict == Undeclared:
		return ErrUndeclared
	case r.Verdict == Copied:
		return ErrCopy
	case !r.Open():
		return ErrSettling
	}
	return nil
}

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// here is where the session's server is now. A session of a primary is asked.
const here = `
WITH here AS MATERIALIZED (
    SELECT (SELECT system_identifier FROM pg_control_system()) AS system_identifier, 'database_history'::regclass::oid AS table_oid,
        ('x' || lpad(substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), 16, '0'))::bit(64)::bigint AS timeline)`

const insertHere = here + `,
last AS MATERIALIZED (SELECT h.* FROM database_history h ORDER BY h.id DESC LIMIT 1)
INSERT INTO database_history (system_identifier, table_oid, timeline, position, switched_at, last_job, verdict, finished_at)
SELECT here.system_identifier, here.table_oid, here.timeline, pg_current_wal_insert_lsn(), pg_last_wal_replay_lsn(),
    (SELECT s.last_value FROM river_job_id_seq s),
    CASE WHEN last.id IS NULL THEN 'first'
        WHEN last.system_identifier = here.system_identifier AND last.table_oid = here.table_oid AND last.timeline < here.timeline THEN 'undecided'
        ELSE 'undeclared' END,
    CASE WHEN last.id IS NULL THEN now() END
FROM here
LEFT JOIN last ON true
WHERE NOT EXISTS (SELECT FROM database_history h
    WHERE h.system_identifier = here.system_identifier AND h.table_oid = here.table_oid AND h.timeline = here.timeline)
ON CONFLICT ON CONSTRAINT database_history_place DO NOTHING`

// Begin records that the data is now on the session's cluster and timeline, unless that is recorded. It must have returned before anything
// is written on that timeline. It fits [session.History.OnBegin].
func Begin(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, insertHere); err != nil {
		return fmt.Errorf("recording the database's history: %w", err)
	}
	return nil
}

const readHere = here + `
SELECT h.id, h.system_identifier, h.timeline, h.verdict, coalesce(h.switched_at - '0/0', 0)::bigint, h.last_job, h.marked,
    h.began_at, h.decided_at, h.finished_at
FROM database_history h
JOIN here ON h.system_identifier = here.system_identifier AND h.table_oid = here.table_oid AND h.timeline = here.timeline`

// ErrUnknown is returned by [Read] if no process has worked on the data where it is now.
var ErrUnknown = errors.New("no process has begun to work on the database where it is now")

// Read reads the row about the cluster and timeline of the session's server.
func Read(ctx context.Context, db querier) (*Row, error) { return scan(db.QueryRow(ctx, readHere)) }

func scan(row pgx.Row) (*Row, error) {
	var r Row
	var timeline, switched int64
	err := row.Scan(&r.ID, &r.System, &timeline, &r.Verdict, &switched, &r.LastJob, &r.Marked, &r.BeganAt, &r.DecidedAt, &r.FinishedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("reading the database's history: %w", err)
	}
	r.Timeline, r.SwitchedAt = uint32(timeline), uint64(switched)
	return &r, nil
}
