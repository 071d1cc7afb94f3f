package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Last is the last run of a source.
type Last struct {
	Report

	// BeganAt is when it began or was continued, and EndedAt when it ended; nil if it has not ended or its process died.
	BeganAt time.Time  `json:"began_at"`
	EndedAt *time.Time `json:"ended_at,omitempty"`

	// CoveredUntil is the end of the period that complete runs have covered without a gap; nil without
	// one.
	CoveredUntil *time.Time `json:"covered_until,omitempty"`

	// Actor started it; empty if the schedule did.
	Actor string `json:"actor,omitempty"`

	// Error is why it failed; empty if it did not.
	Error string `json:"error,omitempty"`
}

const readLast = `
SELECT since_at, until_at, cursor, complete, covered_until, began_at, ended_at, coalesce(actor, ''), coalesce(error, ''), counts
FROM reconciliation WHERE source_id = $1`

// Read returns the last run of a source, or nil if there was none.
func Read(ctx context.Context, db row.Querier, source int32) (*Last, error) {
	rows, err := db.Query(ctx, readLast, source)
	if err != nil {
		return nil, fmt.Errorf("reading the last reconciliation: %w", err)
	}
	last, err := pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (l Last, err error) {
		err = r.Scan(&l.Since, &l.Until, &l.Next, &l.Complete, &l.CoveredUntil, &l.BeganAt, &l.EndedAt, &l.Actor, &l.Error, &l.Counts)
		return l, err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the last reconciliation: %w", err)
	}
	return &last, nil
}

// The row of the run before is replaced, except for what its runs have covered.
const beginRun = `
INSERT INTO reconciliation (source_id, since_at, until_at, cursor, complete, began_at, actor, counts)
VALUES ($1, $2, $3, '', false, $4, nullif($5, ''), '{}')
ON CONFLICT ON CONSTRAINT reconciliation_pkey DO UPDATE
SET since_at = excluded.since_at, until_at = excluded.until_at, cursor = '', complete = false, began_at = excluded.began_at, ended_at = NULL,
    actor = excluded.actor, error = NULL, counts = '{}'`

// The schedule counts from when the run was continued, so that a sender that is away is not asked all the time.
const resumeRun = `UPDATE reconciliation SET began_at = $3, ended_at = NULL, error = NULL, actor = nullif($2, '') WHERE source_id = $1`

// The next page is noted after the events of a page were admitted, so that none is left out. covered_until moves only
// if the period begins before it, because there would be a gap otherwise.
const noteProgress = `
UPDATE reconciliation
SET cursor = $2, complete = $3, counts = $4, ended_at = $5, error = nullif($6, ''),
    covered_until = CASE WHEN $3 AND (covered_until IS NULL OR since_at <= covered_until) THEN greatest(covered_until, until_at) ELSE covered_until END
WHERE source_id = $1`

// execer is a connection or a transaction.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// note writes how far the run is; ended is zero until it ends.
func (r *Run) note(ctx context.Context, db execer, report *Report, ended time.Time, failure string) error {
	counts, err := json.Marshal(report.Counts)
	if err != nil {
		return fmt.Errorf("noting the reconciliation of %s: %w", r.Name, err)
	}
	if _, err := db.Exec(ctx, noteProgress, r.Source, report.Next, report.Complete, counts, row.Micros(ended), failure); err != nil {
		return fmt.Errorf("noting the reconciliation of %s: %w", r.Name, err)
	}
	return nil
}
