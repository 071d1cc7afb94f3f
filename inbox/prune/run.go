package prune

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// runRetention is how long is known what a pass has removed.
const runRetention = 30 * 24 * time.Hour

// PastRun is a pass that removed something, was told to include something, or did not come to its end.
type PastRun struct {
	ID inbox.ID `json:"id"`

	// BeganAt is when the pass began.
	BeganAt time.Time `json:"began_at"`

	// EndedAt is when it ended.
	EndedAt time.Time `json:"ended_at"`

	// Complete is false if its time, a stop or the locks of others ended it first.
	Complete bool `json:"complete"`

	// Rows are the rows removed, by table, and Partitions the days of bodies.
	Rows       map[string]int64 `json:"rows"`
	Partitions []string         `json:"partitions"`

	// Kept is how many bodies of those days were still needed, and Left how many rows past their horizon something needed.
	Kept int64 `json:"kept"`
	Left int64 `json:"left"`

	// Archived is how many bodies it wrote to the archive, and ArchiveError why the archive took no more of them.
	Archived     int64  `json:"archived,omitempty"`
	ArchiveError string `json:"archive_error,omitempty"`

	// Contended names the walks that ended because other sessions kept locks for too long.
	Contended []string `json:"contended"`

	// Include is what an operator included by name, and Actor the operator; both are empty for a pass that ran by
	// itself.
	Include []string `json:"include"`
	Actor   string   `json:"actor,omitempty"`
}

const insertRun = `
INSERT INTO prune_run (id, ended_at, complete, removed, partitions, kept, left_behind, contended, include, actor, archived, archive_error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, nullif($10, ''), $11, nullif($12, ''))`

// record keeps what the pass did, unless that is nothing. Rows of earlier records are not counted: each record would make
// one more.
func (s *pass) record(ctx context.Context, began time.Time) error {
	r := &s.report
	if r.Complete && r.Removed() == 0 && len(r.Partitions) == 0 && len(s.run.Include) == 0 && r.Archived.Bodies == 0 {
		return nil
	}
	rows := maps.Clone(r.Rows)
	maps.DeleteFunc(rows, func(_ string, n int64) bool { return n == 0 })
	removed, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("recording the pass: %w", err)
	}
	include := make([]string, 0, len(s.run.Include))
	for _, name := range s.run.Include {
		include = append(include, string(name))
	}
	contended := append([]string{}, r.Contended...)
	_, err = s.conn.Exec(ctx, insertRun, inbox.NewID(began), began.Add(r.Elapsed), r.Complete, removed, r.Partitions, r.Kept, r.Left, contended, include, s.run.Actor, r.Archived.Bodies, r.Archived.Error)
	if err != nil {
		return fmt.Errorf("recording the pass: %w", err)
	}
	return nil
}

const deleteRuns = `
WITH due AS MATERIALIZED (
    SELECT p.id FROM prune_run p WHERE p.id < $1::uuid ORDER BY p.id LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM prune_run p USING due WHERE p.id = due.id`

func (s *pass) runs(ctx context.Context) error {
	defer delete(s.report.Rows, "prune_run")
	return s.drain(ctx, "prune_run", deleteRuns, s.retention.cutoff(runRetention))
}

// A range of the primary key, from its end.
const listRuns = `
SELECT p.id, p.ended_at, p.complete, p.removed, p.partitions, p.kept, p.left_behind, p.contended, p.include, coalesce(p.actor, ''), p.archived, coalesce(p.archive_error, '')
FROM prune_run p
WHERE $1::uuid IS NULL OR p.id < $1
ORDER BY p.id DESC
LIMIT $2`

// Runs lists past passes, newest first, from before an id on; a zero id is the first page.
func Runs(ctx context.Context, db row.Querier, before inbox.ID, limit int) ([]PastRun, error) {
	rows, err := db.Query(ctx, listRuns, before, limit)
	if err != nil {
		return nil, fmt.Errorf("listing passes of prune: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r PastRun, err error) {
		err = row.Scan(&r.ID, &r.EndedAt, &r.Complete, &r.Rows, &r.Partitions, &r.Kept, &r.Left, &r.Contended, &r.Include, &r.Actor, &r.Archived, &r.ArchiveError)
		r.BeganAt = r.ID.Time()
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing passes of prune: %w", err)
	}
	return out, nil
}
