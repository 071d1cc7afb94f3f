package prune

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Archived is what a pass wrote to the archive.
type Archived struct {
	// Objects are the objects, Bodies the bodies and payloads of conflicts in them, and Bytes their size.
	Objects int64 `json:"objects"`
	Bodies  int64 `json:"bodies"`
	Bytes   int64 `json:"bytes"`

	// Error says why the archive took no more. The bodies that it did not take stay in the database.
	Error string `json:"error,omitempty"`
}

func (a Archived) plus(b Archived) Archived {
	return Archived{Objects: a.Objects + b.Objects, Bodies: a.Bodies + b.Bodies, Bytes: a.Bytes + b.Bytes, Error: b.Error}
}

// errArchive means that the archive did not take the bodies: they stay, and the next pass tries again.
var errArchive = errors.New("the archive took no bodies")

// archiveFailed ends the archiving of this pass. Every error of the archive does, also one that is not the store's, because
// nothing may be removed that is not archived.
func (s *pass) archiveFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errTimeIsUp
	}
	if s.report.Archived.Error == "" {
		s.report.Archived.Error = row.ErrorText(err)
		s.cfg.Logger.WarnContext(ctx, "the archive took no bodies, so they stay in the database: examine the archive with oncegate doctor",
			slog.String("error", row.ErrorText(err)))
	}
	return errArchive
}

func (s *pass) count1(w archive.Written) {
	if w.Lines > 0 {
		s.report.Archived.Objects++
		s.report.Archived.Bodies += int64(w.Lines)
		s.report.Archived.Bytes += w.Bytes
	}
}

// archiveLeftovers removes what a crash left in the archive, and completes the erasures that it interrupted.
func (s *pass) archiveLeftovers(ctx context.Context) error {
	if s.report.Archived.Error != "" {
		return nil
	}
	if !s.cfg.Archive.Configured() {
		return s.checkUnconfigured(ctx)
	}
	if err := s.cfg.Archive.RemoveLeftovers(ctx); err != nil {
		return s.unlessArchive(s.archiveFailed(ctx, err))
	}
	if _, err := s.cfg.Archive.Erase(ctx, s.cfg.Keyring, nil); err != nil {
		return s.unlessArchive(s.archiveFailed(ctx, err))
	}
	return nil
}

// checkUnconfigured keeps all bodies if there is an archive and this process does not know it: a command or a server that lacks the
// section must not remove what the others would archive.
func (s *pass) checkUnconfigured(ctx context.Context) error {
	if err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archive_object)`).Scan(&s.withoutArchive); err != nil || !s.withoutArchive {
		return err
	}
	s.report.Archived.Error = "there is an archive, and this configuration names none: set archive.url"
	s.cfg.Logger.WarnContext(ctx, "bodies stay in the database: there is an archive, and the configuration of this process names none: set archive.url")
	return nil
}

// unlessArchive lets the pass continue with the other steps.
func (s *pass) unlessArchive(err error) error {
	if errors.Is(err, errArchive) {
		return nil
	}
	return err
}

// An object has at most objectRows bodies of together objectBytes bytes. A single body may have more. An erasure writes an object
// again, so that it costs no more than this.
const (
	objectRows  = 10_000
	objectBytes = 16 << 20
)

// archiveWalkName is the name under which the position in a day is stored. Stored: never change.
func (p *partition) archiveWalkName() string { return p.name + " archived" }

// The next body of a day.
const readNextBody = `SELECT id FROM %[1]s WHERE id > $1 ORDER BY id LIMIT 1`

// archivedEvents are the events of body b, by their common millisecond: those that are not erased, the ranges of those that are,
// and whether one of them has its body in class $1. A body without any event is archived too.
const archivedEvents = `
    SELECT coalesce(json_agg(json_build_object('id', e.id, 'source', s.name, 'event_id', e.event_id, 'type', e.type, 'received_at', e.received_at,
            'offset', e.body_offset, 'length', e.body_length) ORDER BY e.id) FILTER (WHERE e.class <> 'erased'), '[]') AS events,
        coalesce(json_agg(json_build_object('offset', e.body_offset, 'length', e.body_length)) FILTER (WHERE e.class = 'erased'), '[]') AS erased,
        coalesce(bool_or(e.class = $1), true) AS goes
    FROM inbox_event e JOIN source s ON s.id = e.source_id
    WHERE e.id >= (left(b.id::text, 13) || '-0000-0000-000000000000')::uuid AND e.id <= (left(b.id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid
        AND e.body_id = b.id`

// The next bodies of a day, up to a number and a size: PostgreSQL knows the length of a value without reading it.
const readDay = `
WITH page AS MATERIALIZED (
    SELECT d.id, octet_length(d.headers) + octet_length(d.body) AS size FROM %[1]s d WHERE d.id > $2 ORDER BY d.id LIMIT $3),
taken AS MATERIALIZED (
    SELECT t.id FROM (SELECT p.id, sum(p.size) OVER (ORDER BY p.id) - p.size AS before FROM page p) t WHERE t.before < $4)
SELECT b.id, b.key_id, b.headers, b.body, v.events, v.erased, v.goes
FROM taken t
JOIN %[1]s b ON b.id = t.id
CROSS JOIN LATERAL (` + archivedEvents + `) v
ORDER BY b.id`

// archiveDay writes the bodies of a day to the archive that no other class keeps. The position is stored with each object, so
// that a later pass continues after it.
func (s *pass) archiveDay(ctx context.Context, p *partition) error {
	if !s.cfg.Archive.Takes(p.class) {
		return nil
	}
	if s.report.Archived.Error != "" {
		s.holdEvents(p.day)
		return errArchive
	}
	position := inbox.FirstID(p.day.Add(-time.Millisecond)).String()
	if err := s.conn.QueryRow(ctx, readCopyPosition, p.archiveWalkName(), position).Scan(&position); err != nil {
		return fmt.Errorf("reading how far %s is: %w", p.archiveWalkName(), err)
	}
	for {
		if s.timeIsUp(ctx) {
			s.holdEvents(p.day)
			return errTimeIsUp
		}
		began := s.cfg.Now()
		n, err := s.archiveBodies(ctx, p, &position)
		switch {
		case err != nil:
			s.holdEvents(p.day)
			return s.archiveFailed(ctx, err)
		case n == 0:
			return nil
		}
		s.report.Batches++
		s.cfg.Progress(Progress{Step: p.name, Removed: s.report.Removed(), Done: fractionBetween(inbox.FirstID(p.day), inbox.FirstID(p.ends()))(position) / 2})
		if err := s.pauseAfterBatch(ctx, batchResult{removed: int64(n)}, s.cfg.Now().Sub(began)); err != nil {
			s.holdEvents(p.day)
			return errTimeIsUp
		}
	}
}

// holdEvents keeps the events from a day on, whose bodies wait for the archive: without its event, a body is archived under no
// name by which it can be found or erased.
func (s *pass) holdEvents(day time.Time) {
	if s.unarchived.IsZero() || day.Before(s.unarchived) {
		s.unarchived = day
	}
}

// behindArchive stops the walk over events at the first day whose bodies wait for the archive.
func (s *pass) behindArchive(cutoff inbox.ID) inbox.ID {
	if at := inbox.FirstID(s.unarchived); !s.unarchived.IsZero() && at.Time().Before(cutoff.Time()) {
		return at
	}
	return cutoff
}

// bodyArchived is the condition that no kept body of event e waits for the archive.
const bodyArchived = ` AND (e.class <> 'kept' OR NOT EXISTS (SELECT FROM inbox_body_kept w WHERE w.class = 'kept' AND w.id = e.body_id OFFSET 0))`

// archiveBodies writes one object and returns how many bodies it looked at; 0 at the end of the day.
func (s *pass) archiveBodies(ctx context.Context, p *partition, position *string) (n int, err error) {
	after, err := inbox.ParseID(*position)
	if err != nil {
		return 0, err
	}
	var first inbox.ID
	err = s.conn.QueryRow(ctx, fmt.Sprintf(readNextBody, p.name), floor(after)).Scan(&first)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var written archive.Written
	last := first
	err = s.inDurableTx(ctx, func(tx pgx.Tx) (err error) {
		t := archive.Target{Kind: archive.Body, Class: p.class, First: first, Last: lastOf(p.day)}
		written, err = s.cfg.Archive.Write(ctx, tx, t, func(ctx context.Context) (lines []archive.Line, err error) {
			rows, err := tx.Query(ctx, fmt.Sprintf(readDay, p.name), p.class, floor(after), objectRows, objectBytes)
			if err != nil {
				return nil, err
			}
			return s.collectLines(rows, func(id inbox.ID) { n, last = n+1, id })
		})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, writeWalk, p.archiveWalkName(), last.String(), s.retention.now, nil)
		return err
	})
	if err != nil {
		return 0, err
	}
	*position = last.String()
	s.count1(written)
	return max(n, 1), nil
}

func (s *pass) inDurableTx(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
			return err
		}
		return do(tx)
	})
}

// lastOf is the greatest id of a day.
func lastOf(day time.Time) inbox.ID {
	id := inbox.FirstID(day.AddDate(0, 0, 1).Add(-time.Millisecond))
	for i := 6; i < len(id); i++ {
		id[i] = 0xff
	}
	return id
}

// collectLines reads the rows of bodies with their events. Bytes of erased events are blanked, or remembered if their key is missing.
func (s *pass) collectLines(rows pgx.Rows, seen func(inbox.ID)) (lines []archive.Line, err error) {
	defer rows.Close()
	for rows.Next() {
		line := archive.Line{Kind: archive.Body}
		var goes bool
		if err := rows.Scan(&line.ID, &line.KeyID, &line.Headers, &line.Body, &line.Events, &line.Erased, &goes); err != nil {
			return nil, err
		}
		if seen(line.ID); !goes {
			continue
		}
		if err := line.Blank(s.cfg.Keyring); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, rows.Err()
}
