package prune

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// The kept bodies among $3 that are no longer needed, with their size. The events of a body are found by their common millisecond.
const readUnneeded = `
SELECT b.id, octet_length(b.headers) + octet_length(b.body)
FROM unnest($3::uuid[], $4::uuid[], $5::uuid[]) AS k (id, first, after)
JOIN inbox_body_kept b ON b.class = 'kept' AND b.id = k.id
WHERE NOT EXISTS (
    SELECT FROM inbox_event e
    WHERE e.id >= k.first AND e.id < k.after AND e.body_id = k.id AND e.class = 'kept' AND ` + neededEvent + `)
ORDER BY b.id`

const (
	// A body goes to the archive if the class of a source that delivered it does, or if nothing says any more which source did.
	readKept = `
SELECT b.id, b.key_id, b.headers, b.body, v.events, v.erased, coalesce((
    SELECT bool_or(s.class = ANY ($3::text[]))
    FROM inbox_event e JOIN source s ON s.id = e.source_id
    WHERE e.id >= (left(b.id::text, 13) || '-0000-0000-000000000000')::uuid AND e.id <= (left(b.id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid
        AND e.body_id = b.id), true)
FROM inbox_body_kept b
CROSS JOIN LATERAL (` + archivedEvents + `) v
WHERE b.class = $1 AND b.id = ANY ($2::uuid[])
ORDER BY b.id`

	deleteArchived = `DELETE FROM inbox_body_kept b WHERE b.class = 'kept' AND b.id = ANY ($1::uuid[])`
)

// archiveKept archives a batch of kept bodies that are no longer needed, one object for each day, and removes them. The rows are
// locked, so that an erasure of one of them waits until it can see the object.
func (s *pass) archiveKept(ctx context.Context, tx pgx.Tx, after inbox.ID, n int) (got batchResult, err error) {
	if s.report.Archived.Error != "" {
		return got, errArchive
	}
	rows, err := tx.Query(ctx, lockKeptBodies, floor(after), n)
	if err != nil {
		return got, err
	}
	locked, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
	if err != nil || len(locked) == 0 {
		return got, err
	}
	got = batchResult{examined: len(locked), due: len(locked), last: locked[len(locked)-1].String()}
	going, cut, err := s.unneeded(ctx, tx, locked)
	if err != nil || len(going) == 0 {
		return got, err
	}
	if cut { // the next batch begins after them
		got.examined, got.last = n, going[len(going)-1].String()
	}
	if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
		return got, err
	}
	for day, ids := range byDay(going, func(id inbox.ID) inbox.ID { return id }) {
		t := archive.Target{Kind: archive.Body, Class: row.KeptClass, First: ids[0], Last: lastOf(day)}
		written, err := s.cfg.Archive.Write(ctx, tx, t, func(ctx context.Context) ([]archive.Line, error) {
			rows, err := tx.Query(ctx, readKept, row.KeptClass, ids, s.archivedClasses())
			if err != nil {
				return nil, err
			}
			return s.collectLines(rows, func(inbox.ID) {})
		})
		if err != nil {
			return got, s.archiveFailed(ctx, err)
		}
		s.count1(written)
	}
	tag, err := tx.Exec(ctx, deleteArchived, going)
	got.removed = tag.RowsAffected()
	return got, err
}

// archivedClasses are the classes of sources whose bodies are archived.
func (s *pass) archivedClasses() (classes []string) {
	for _, source := range s.retention.sources {
		if s.cfg.Archive.Takes(source.Class) {
			classes = append(classes, source.Class)
		}
	}
	return classes
}

// unneeded returns the bodies that are no longer needed, up to the size of one object. cut says that there are more.
func (s *pass) unneeded(ctx context.Context, tx pgx.Tx, ids []inbox.ID) (going []inbox.ID, cut bool, err error) {
	sources, since := s.longerKeepingSources()
	firsts, afters := make([]inbox.ID, len(ids)), make([]inbox.ID, len(ids))
	for i, id := range ids {
		firsts[i], afters[i] = sameMillisecond(id)
	}
	rows, err := tx.Query(ctx, readUnneeded, sources, since, ids, firsts, afters)
	if err != nil {
		return nil, false, err
	}
	var id inbox.ID
	var size, sum int64
	_, err = pgx.ForEachRow(rows, []any{&id, &size}, func() error {
		if cut = sum >= objectBytes; !cut {
			going, sum = append(going, id), sum+size
		}
		return nil
	})
	return going, cut, err
}

// byDay groups rows by the day of their key, in their order.
func byDay[T any](rows []T, key func(T) inbox.ID) map[time.Time][]T {
	out := map[time.Time][]T{}
	for _, r := range rows {
		day := key(r).Time().Truncate(24 * time.Hour)
		out[day] = append(out[day], r)
	}
	return out
}
