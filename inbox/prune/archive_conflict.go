package prune

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
)

// The payloads of conflicts that are due, as [deleteConflicts] finds them, with the event under whose id each was delivered.
const lockConflicts = `
SELECT c.id, c.key_id, c.headers, c.body, c.event_id, c.type, c.first_seen_at, s.name, s.class, coalesce(v.event_id, '')
FROM unnest($1::int[], $2::timestamptz[]) AS d (id, cutoff)
CROSS JOIN LATERAL (
    SELECT x.* FROM conflict x WHERE x.source_id = d.id AND x.last_seen_at < d.cutoff ORDER BY x.last_seen_at LIMIT $3 FOR UPDATE SKIP LOCKED) c
JOIN source s ON s.id = c.source_id
LEFT JOIN inbox_event v ON v.id = c.event_id
LIMIT $3`

const deleteArchivedConflicts = `DELETE FROM conflict WHERE id = ANY ($1::uuid[])`

// conflictRows bounds a batch: an object of conflicts has few lines, but a payload may be large.
const conflictRows = 200

// archiveConflicts archives the payloads of conflicts before it removes them, by the class of their source and the day of their event.
func (s *pass) archiveConflicts(ctx context.Context, sources []int32, cutoffs []time.Time) error {
	w := &walk{name: "conflict", table: "conflict", batch: func(ctx context.Context, tx pgx.Tx, _ string, n int) (batchResult, error) {
		return s.conflictBatch(ctx, tx, sources, cutoffs, n)
	}}
	_, err := s.batches(ctx, w, new(string))
	return err
}

// conflictLine is a payload with the class of its source.
type conflictLine struct {
	archive.Line
	class string
}

func (s *pass) conflictBatch(ctx context.Context, tx pgx.Tx, sources []int32, cutoffs []time.Time, n int) (got batchResult, err error) {
	if s.report.Archived.Error != "" {
		return got, errArchive
	}
	if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
		return got, err
	}
	due, ids, err := lockedConflicts(ctx, tx, sources, cutoffs)
	if err != nil || len(ids) == 0 {
		return got, err
	}
	byClass := map[string][]conflictLine{}
	for _, line := range due {
		byClass[line.class] = append(byClass[line.class], line)
	}
	for class, lines := range byClass {
		if !s.cfg.Archive.Takes(class) {
			continue
		}
		for day, lines := range byDay(lines, func(l conflictLine) inbox.ID { return l.Events[0].ID }) {
			if err := s.writeConflicts(ctx, tx, class, day, lines); err != nil {
				return got, s.archiveFailed(ctx, err)
			}
		}
	}
	tag, err := tx.Exec(ctx, deleteArchivedConflicts, ids)
	got = batchResult{examined: len(ids), due: len(ids), removed: tag.RowsAffected()}
	if len(ids) == conflictRows {
		got.examined = n // there may be more
	}
	return got, err
}

func (s *pass) writeConflicts(ctx context.Context, tx pgx.Tx, class string, day time.Time, due []conflictLine) error {
	lines := make([]archive.Line, len(due))
	for i := range due {
		lines[i] = due[i].Line
	}
	first := slices.MinFunc(lines, func(a, b archive.Line) int { return bytes.Compare(a.Events[0].ID[:], b.Events[0].ID[:]) }).Events[0].ID
	t := archive.Target{Kind: archive.Conflict, Class: class, First: first, Last: lastOf(day)}
	written, err := s.cfg.Archive.Write(ctx, tx, t, func(context.Context) ([]archive.Line, error) { return lines, nil })
	if err == nil {
		s.count1(written)
	}
	return err
}

// lockedConflicts reads and locks what is due. An erasure of one of them waits for the lock.
func lockedConflicts(ctx context.Context, tx pgx.Tx, sources []int32, cutoffs []time.Time) (due []conflictLine, ids []inbox.ID, err error) {
	rows, err := tx.Query(ctx, lockConflicts, sources, cutoffs, conflictRows)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		line := conflictLine{Line: archive.Line{Kind: archive.Conflict, Events: make([]archive.Event, 1)}}
		e := &line.Events[0]
		if err := rows.Scan(&line.ID, &line.KeyID, &line.Headers, &line.Body, &e.ID, &e.Type, &e.ReceivedAt, &e.Source, &line.class, &e.EventID); err != nil {
			return nil, nil, err
		}
		due, ids = append(due, line), append(ids, line.ID)
	}
	return due, ids, rows.Err()
}
