package prune

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// partition is one day of bodies of one class.
type partition struct {
	name     string
	class    string
	day      time.Time
	attached bool
	pending  bool // a detach was interrupted
	bytes    int64
}

func (p *partition) parent() string { return "inbox_body_" + p.class }

// ends returns the first instant after the day.
func (p *partition) ends() time.Time { return p.day.AddDate(0, 0, 1) }

var partitionName = regexp.MustCompile(`^inbox_body_([a-z][a-z0-9_]*)_([0-9]{8})$`)

// The list includes partitions that were detached and not dropped, because a pass may
// have ended in between.
const listPartitions = `
SELECT c.relname, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false), pg_total_relation_size(c.oid)
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'inbox\_body\_%'
ORDER BY c.relname`

// partitions returns the days of bodies, the oldest first.
func partitions(ctx context.Context, db row.Querier) ([]partition, error) {
	rows, err := db.Query(ctx, listPartitions)
	if err != nil {
		return nil, fmt.Errorf("listing the partitions of bodies: %w", err)
	}
	var out []partition
	var p partition
	_, err = pgx.ForEachRow(rows, []any{&p.name, &p.attached, &p.pending, &p.bytes}, func() error {
		match := partitionName.FindStringSubmatch(p.name)
		if match == nil {
			return nil
		}
		day, err := time.Parse("20060102", match[2])
		if err != nil {
			return nil //nolint:nilerr // not a table of ours
		}
		p.class, p.day = match[1], day
		out = append(out, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the partitions of bodies: %w", err)
	}
	slices.SortStableFunc(out, func(a, b partition) int { return a.day.Compare(b.day) })
	return out, nil
}

// due reports whether the whole day is past its class's horizon. A class that was
// never registered has the longest; if none was, nothing is due.
func (r *retention) due(p *partition) bool {
	horizon := r.class(p.class).Body
	return horizon > 0 && !p.ends().Add(horizon).After(r.now)
}

// bodies removes whole days of bodies. It detaches each day first, because a plain DROP
// would lock the class against deliveries until its files are deleted.
func (s *pass) bodies(ctx context.Context) error {
	all, err := partitions(ctx, s.conn)
	if err != nil {
		return err
	}
	// If another session has a lock on a class, the next pass prunes that class; the
	// others need not wait for it.
	stuck := map[string]bool{}
	for i := range all {
		// An interrupted detach prevents the next one of its class.
		if p := &all[i]; p.pending {
			err := s.ddl(ctx, p, "ALTER TABLE "+p.parent()+" DETACH PARTITION "+p.name+" FINALIZE")
			if err != nil && !s.isBlocked(ctx, err) {
				return err
			}
			stuck[p.class], p.attached = err != nil, err != nil
		}
	}
	for i := range all {
		p := &all[i]
		if stuck[p.class] || !s.retention.due(p) {
			continue
		}
		if s.withoutArchive {
			s.holdEvents(p.day)
			continue
		}
		if s.timeIsUp(ctx) {
			return errTimeIsUp
		}
		if err := s.drop(ctx, p); err != nil {
			if !errors.Is(err, errArchive) && !s.isBlocked(ctx, err) {
				return err
			}
			stuck[p.class] = true
		}
	}
	return nil
}

// isBlocked reports whether a step ended because of locks of other sessions, and not
// because its time was over.
func (s *pass) isBlocked(ctx context.Context, err error) bool {
	return errors.Is(err, errTimeIsUp) && !s.timeIsUp(ctx)
}

// drop keeps the bodies that are still needed, archives the others, detaches the day from its class and
// drops it. It archives before it detaches, so that a day that waits for the archive can be read. It looks for needed bodies again after detaching, to keep those that became
// needed meanwhile: no new event can refer to the detached day.
func (s *pass) drop(ctx context.Context, p *partition) error {
	if p.attached {
		if err := s.copyNeededBodies(ctx, p); err != nil {
			return err
		}
		if err := s.archiveDay(ctx, p); err != nil {
			return err
		}
		s.cfg.Progress(Progress{Step: p.name, Removed: s.report.Removed()})
		if err := s.ddl(ctx, p, "ALTER TABLE "+p.parent()+" DETACH PARTITION "+p.name+" CONCURRENTLY"); err != nil {
			return err
		}
		p.attached = false
	}
	if err := s.copyNeededBodies(ctx, p); err != nil {
		return err
	}
	if err := s.archiveDay(ctx, p); err != nil {
		return err
	}
	// Before the table is dropped, and not after, so that the walk over another table
	// of that name starts from the beginning.
	if _, err := s.conn.Exec(ctx, deleteCopyPositions, append(p.copyWalkNames(), p.archiveWalkName())); err != nil {
		return fmt.Errorf("forgetting how far %s is: %w", p.name, err)
	}
	if err := s.ddl(ctx, p, "DROP TABLE "+p.name); err != nil {
		return err
	}
	s.report.Partitions = append(s.report.Partitions, p.name)
	s.cfg.Progress(Progress{Step: p.name, Removed: s.report.Removed(), Done: 1})
	return nil
}

// ddl runs one statement outside any transaction, under the short lock timeout of the
// pass, and tries again a few times, so that sessions with conflicting locks come
// first. Table names are made of checked classes and dates, so they need no quoting.
func (s *pass) ddl(ctx context.Context, p *partition, sql string) error {
	for tries := 1; ; tries++ {
		_, err := s.conn.Exec(ctx, sql)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errTimeIsUp
		case isLockConflict(err) && tries < 5 && !s.timeIsUp(ctx):
			if s.sleep(ctx, 100*time.Millisecond<<tries) != nil {
				return errTimeIsUp
			}
			// An interrupted detach is finished, not begun again.
			if strings.HasSuffix(sql, "CONCURRENTLY") {
				var pending bool
				if err := s.conn.QueryRow(ctx, readPending, p.name).Scan(&pending); err != nil {
					return fmt.Errorf("detaching %s: %w", p.name, err)
				}
				if pending {
					sql = strings.TrimSuffix(sql, "CONCURRENTLY") + "FINALIZE"
				}
			}
			continue
		case isLockConflict(err):
			s.report.Contended = append(s.report.Contended, p.name)
			s.cfg.Logger.WarnContext(ctx, "pruning gave way to locks", slog.String("walk", p.name), slog.String("error", row.ErrorText(err)))
			return errTimeIsUp
		}
		return fmt.Errorf("removing %s: %w", p.name, err)
	}
}

const readPending = `
SELECT coalesce((SELECT i.inhdetachpending FROM pg_inherits i WHERE i.inhrelid = to_regclass($1)), false)`

// A body is needed as long as the event may still be worked on, is a dead letter
// itself, is in an open replay, or its source keeps bodies for longer than the
// class did under which it came ($1, $2: sources and the ids from which they keep).
// OFFSET 0 keeps the planner from reading all effects at once into a hash.
const neededEvent = `(
    e.admission IN ('unusable', 'beyond_retention') AND e.discarded_at IS NULL
    OR EXISTS (
        SELECT FROM effect f
        WHERE f.event_id = e.id AND f.state IN ('pending', 'claimed', 'retry', 'held', 'dead', 'indeterminate')
        OFFSET 0)
    OR EXISTS (
        SELECT FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
        WHERE i.event_id = e.id AND ` + row.OpenItem + `
        OFFSET 0)
    OR EXISTS (SELECT FROM unnest($1::int[], $2::uuid[]) AS l (id, since) WHERE l.id = e.source_id AND e.id >= l.since))`

// The events of a day are those whose ids are of the day: the gate makes the ids
// of a delivery's events and of its body in the same millisecond. The event's
// pointer moves with its body. %[1]s is the day's table, attached or not.
const copyBodies = `
WITH page AS MATERIALIZED (
    SELECT id FROM inbox_event WHERE id > $3::uuid AND id < $4::uuid ORDER BY id LIMIT $5),
needed AS MATERIALIZED (
    SELECT e.id, e.body_id
    FROM page p
    JOIN inbox_event e ON e.id = p.id
    WHERE e.class = $6 AND ` + neededEvent + ` AND EXISTS (SELECT FROM %[1]s b WHERE b.id = e.body_id)
    ORDER BY e.id
    FOR NO KEY UPDATE OF e),
copied AS (
    INSERT INTO inbox_body (class, id, key_id, headers, body)
    SELECT 'kept', b.id, b.key_id, b.headers, b.body
    FROM (SELECT DISTINCT body_id FROM needed) n
    JOIN %[1]s b ON b.id = n.body_id
    ON CONFLICT DO NOTHING
    RETURNING 1),
moved AS (
    UPDATE inbox_event e SET class = 'kept' FROM needed n WHERE e.id = n.id RETURNING 1)
SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1),
    (SELECT count(*) FROM copied), (SELECT count(*) FROM moved)`

// copyNeededBodies copies the bodies that are still needed out of a day.
func (s *pass) copyNeededBodies(ctx context.Context, p *partition) error {
	query := fmt.Sprintf(copyBodies, p.name)
	sources, since := s.longerKeepingSources()
	until := inbox.FirstID(p.ends())
	w := &walk{name: p.name, table: "inbox_body", batch: func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error) {
		after, err := inbox.ParseID(position)
		if err != nil {
			return batchResult{}, err
		}
		var (
			got           batchResult
			last          inbox.ID
			copied, moved int64
		)
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
			return batchResult{}, err
		}
		err = tx.QueryRow(ctx, query, sources, since, floor(after), until, n, p.class).Scan(&got.examined, &last, &copied, &moved)
		got.last = positionOf(last)
		s.report.Kept += copied
		return got, err
	}, fractionDone: fractionBetween(inbox.FirstID(p.day), until)}
	look := p.copyWalkNames()[0]
	if !p.attached {
		look = p.copyWalkNames()[1]
	}
	position := inbox.FirstID(p.day.Add(-time.Millisecond)).String()
	if err := s.conn.QueryRow(ctx, readCopyPosition, look, position).Scan(&position); err != nil {
		return fmt.Errorf("reading how far %s is: %w", look, err)
	}
	before := len(s.report.Contended)
	_, err := s.batches(ctx, w, &position)
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, saved := s.conn.Exec(save, writeWalk, look, position, s.retention.now, nil); saved != nil && err == nil {
		err = fmt.Errorf("noting how far %s is: %w", look, saved)
	}
	if err == nil && len(s.report.Contended) > before {
		return errTimeIsUp // not every body that is needed has been kept
	}
	return err
}

// A day with many events is searched in several passes; otherwise its bodies would
// never be removed. The second search finds bodies that became needed after the
// position of the first one. When it begins, no new event can refer to the day, so no
// further body becomes needed.
const (
	readCopyPosition = `SELECT coalesce((SELECT position FROM prune_walk WHERE name = $1), $2)`

	deleteCopyPositions = `DELETE FROM prune_walk WHERE name = ANY ($1::text[])`
)

// copyWalkNames returns the names under which the progress of the two searches is
// stored. Stored: never change.
func (p *partition) copyWalkNames() []string {
	return []string{p.name + " attached", p.name + " detached"}
}

// longerKeepingSources returns the sources that keep bodies longer, and the ids from
// which each keeps them.
func (s *pass) longerKeepingSources() (sources []int32, since []inbox.ID) {
	for _, source := range s.retention.sources {
		if source.Keep.Body > 0 {
			sources, since = append(sources, source.ID), append(since, s.retention.cutoff(source.Keep.Body))
		}
	}
	return sources, since
}

const lockKeptBodies = `
SELECT b.id FROM inbox_body_kept b WHERE b.class = 'kept' AND b.id > $1::uuid ORDER BY b.id LIMIT $2 FOR UPDATE SKIP LOCKED`

// The events of a body are found by their common millisecond.
const deleteKeptBodies = `
DELETE FROM inbox_body_kept b
USING unnest($3::uuid[], $4::uuid[], $5::uuid[]) AS k (id, first, after)
WHERE b.class = 'kept' AND b.id = k.id AND NOT EXISTS (
    SELECT FROM inbox_event e
    WHERE e.id >= k.first AND e.id < k.after AND e.body_id = k.id AND e.class = 'kept' AND ` + neededEvent + `)`

// keptBodies removes kept bodies that are no longer needed.
func (s *pass) keptBodies(ctx context.Context) error {
	if s.withoutArchive {
		return nil
	}
	sources, since := s.longerKeepingSources()
	return s.runWalk(ctx, &walk{
		name: "inbox_body/kept", table: "inbox_body", first: inbox.ID{}.String(), restartAfter: restartEvery, patient: true,
		batch: func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error) {
			after, err := inbox.ParseID(position)
			if err != nil {
				return batchResult{}, err
			}
			if s.cfg.Archive.Configured() {
				return s.archiveKept(ctx, tx, after, n)
			}
			rows, err := tx.Query(ctx, lockKeptBodies, floor(after), n)
			if err != nil {
				return batchResult{}, err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
			if err != nil || len(ids) == 0 {
				return batchResult{}, err
			}
			firsts, afters := make([]inbox.ID, len(ids)), make([]inbox.ID, len(ids))
			for i, id := range ids {
				firsts[i], afters[i] = sameMillisecond(id)
			}
			tag, err := tx.Exec(ctx, deleteKeptBodies, sources, since, ids, firsts, afters)
			return batchResult{examined: len(ids), due: len(ids), removed: tag.RowsAffected(), last: ids[len(ids)-1].String()}, err
		},
	})
}

// sameMillisecond are the bounds of the ids that were made in the same millisecond: a
// body and its events.
func sameMillisecond(id inbox.ID) (first, after inbox.ID) {
	return inbox.FirstID(id.Time()), inbox.FirstID(id.Time().Add(time.Millisecond))
}
