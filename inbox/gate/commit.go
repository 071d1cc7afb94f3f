package gate

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// errKeyNotFound means that a key was neither inserted nor found: the conflicting row was deleted between our
// insert and our read (erased, or its transaction rolled back). Running the group again resolves it.
var errKeyNotFound = errors.New("a key was neither inserted nor found")

// insertEventsOf is the statement that inserts events with these columns.
//
// The unique constraint is the gate. DO NOTHING, never DO UPDATE: one statement
// carries a whole group, and two equal keys in it would raise 21000. The search
// for the same body under another id is best effort, and only for providers
// that do not sign their ids.
func insertEventsOf(columns *row.Columns[keyEntry], conflict string) insertion {
	return insertion{columns, newStatement(columns, func(rows string) string {
		return `
INSERT INTO inbox_event (` + columns.Names() + `, suspected_replay)
SELECT k.*, k.id_unsigned AND EXISTS (
        SELECT FROM inbox_event p WHERE p.id_unsigned AND p.source_id = k.source_id AND p.body_sha256 = k.body_sha256
            AND p.event_id <> k.event_id)
FROM ` + rows + `
` + conflict + ` DO NOTHING
RETURNING id, suspected_replay`
	})}
}

// insertKeyedOf is the statement of a gate with a secret. It also finds the rows that were stored before there was a keyring: the
// same body, and an unusable event under its former id, which is not inserted again. The subquery of the latter cannot become a
// join, so it costs nothing for other events.
func insertKeyedOf(columns *row.Columns[keyEntry], conflict string) insertion {
	with := columns.With(formerColumns...)
	return insertion{with, newStatement(with, func(rows string) string {
		return `
INSERT INTO inbox_event (` + columns.Names() + `, suspected_replay)
SELECT ` + columns.Names() + `, k.id_unsigned AND EXISTS (
        SELECT FROM inbox_event p WHERE p.id_unsigned AND p.source_id = k.source_id
            AND p.body_sha256 IN (k.body_sha256, k.former_sha256) AND p.event_id <> k.event_id)
FROM ` + rows + `
WHERE (SELECT p.id FROM inbox_event p WHERE p.source_id = k.source_id AND p.event_id = k.former_id) IS NULL
` + conflict + ` DO NOTHING
RETURNING id, suspected_replay`
	})}
}

// insertion is a statement that inserts events, and its parameters.
type insertion struct {
	columns *row.Columns[keyEntry]
	statement
}

// Few providers have transmissions, and only a group with one pays for the second key. Without a name ON CONFLICT means both
// unique keys.
var (
	insertEvents             = insertEventsOf(eventColumns, `ON CONFLICT ON CONSTRAINT inbox_event_key`)
	insertTransmissions      = insertEventsOf(transmissionColumns, `ON CONFLICT`)
	insertKeyed              = insertKeyedOf(eventColumns, `ON CONFLICT ON CONSTRAINT inbox_event_key`)
	insertKeyedTransmissions = insertKeyedOf(transmissionColumns, `ON CONFLICT`)
)

// insertion chooses the statement for a group.
func (g *Gate) insertion(group *group) insertion {
	keyed := g.cfg.Installation.Value != nil
	switch {
	case keyed && group.transmissions:
		return insertKeyedTransmissions
	case keyed:
		return insertKeyed
	case group.transmissions:
		return insertTransmissions
	}
	return insertEvents
}

// The first statement's snapshot cannot see a row that was committed while it waited for that row, so a second
// statement reads the keys, in the same round trip. A duplicate of an event with dead effects, or with
// duplicates of dead ones, asks for them to be rearmed; the worker decides which of them may be, under the
// effect's lock.
var readEvents = `
SELECT k.ord, e.id, e.body_sha256, e.admission,
    e.id <> k.own AND k.rearm AND EXISTS (SELECT FROM effect f WHERE f.event_id = e.id AND (f.state = 'dead'
        OR f.state = 'duplicate' AND EXISTS (SELECT FROM effect o WHERE o.id = f.duplicate_of AND o.state = 'dead')))
FROM unnest(` + keyColumns.Arrays() + `) WITH ORDINALITY AS k (` + keyColumns.Names() + `, ord)
JOIN inbox_event e ON e.source_id = k.source_id AND e.event_id = k.event_id`

// The events that have the transmission of another one: the payload that came first stays, and the other is a conflict of it.
const readTransmissions = `
SELECT k.ord, e.id, e.body_sha256, e.admission, false
FROM unnest($1::int[], $2::text[]) WITH ORDINALITY AS k (source_id, transmission, ord)
JOIN inbox_event e ON e.source_id = k.source_id AND e.transmission = k.transmission AND e.transmission IS NOT NULL`

// If a synchronous standby is named, the COMMIT of a group that wrote nothing must still wait for it.
// Otherwise a duplicate could be acknowledged before its original is replicated.
const emitMessage = `SELECT pg_logical_emit_message(true, 'oncegate', '')`

// A group that has little time waits less for locks than its connection allows.
const setLockTimeout = `SELECT set_config('lock_timeout', $1, true)`

// runGroup admits the group. sent reports whether a COMMIT may have reached the server: only then is a lost connection
// ambiguous.
func (g *Gate) runGroup(ctx context.Context, conn Conn, group *group) (sent bool, err error) {
	if !group.try() || g.repeated.Load() {
		return g.runInSteps(ctx, conn, group)
	}
	if err := g.runAtOnce(ctx, conn, group); err != nil {
		return true, err
	}
	rest := *group
	rest.keyEntries = nil
	for _, l := range group.keyEntries {
		if !l.inserted {
			rest.keyEntries = append(rest.keyEntries, l)
		}
	}
	if len(rest.keyEntries) == 0 {
		return true, nil
	}
	_, err = g.runInSteps(ctx, conn, &rest)
	group.labelled = group.labelled || rest.labelled
	return true, err
}

// runAtOnce inserts the events of the group and, in the same round trip and transaction, everything that belongs to the
// new ones. Each statement writes only for events that have our own ids, and so leaves out the events that were recorded
// before. None of the deliveries may have been tried before, because its own id could be recorded then.
func (g *Gate) runAtOnce(ctx context.Context, conn Conn, group *group) error {
	b := begin(group)
	g.queueInsert(b, group)
	woke := g.queueNew(b, group, group.keyEntries)
	return g.sendCommit(ctx, conn, b, group.lane, woke)
}

// runInSteps inserts the events of the group, learns which of them are new, and writes what belongs to each in a second
// round trip of the same transaction. sent means the same as in runGroup.
func (g *Gate) runInSteps(ctx context.Context, conn Conn, group *group) (sent bool, err error) {
	if err := g.insert(ctx, conn, group); err != nil {
		return false, err
	}
	b := &pgx.Batch{}
	if err := queueCalls(b, group); err != nil { // first, because it may refuse
		return false, err
	}
	wrote, woke := g.queueFound(b, group)
	if !wrote && (g.standby.Load() || group.lane.durability.NeedsStandby()) {
		b.Queue(emitMessage)
	}
	return true, g.sendCommit(ctx, conn, b, group.lane, woke)
}

// sendCommit ends the batch with a COMMIT, and after it, if woke, with the notification of the workers.
func (g *Gate) sendCommit(ctx context.Context, conn Conn, b *pgx.Batch, l *lane, woke bool) error {
	committed, named := false, true
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	if l.durability.NeedsStandby() {
		queueReadStandbys(b, &named)
	}
	if woke {
		g.cfg.Enqueuer.Notify(b)
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil && !(committed && isRefused(err)) {
		return err
	}
	switch {
	case !committed:
		return fmt.Errorf("%w: COMMIT was answered by a rollback", ErrUnavailable)
	case conn.Warned():
		return fmt.Errorf("%w: the commit was not confirmed by the standby", ErrUnavailable)
	case !named:
		return ErrNoStandby
	}
	return nil
}

// isRefused reports whether the server answered and refused a statement. After the COMMIT only the notification
// can be refused, without which the workers wake a little later.
func isRefused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.SeverityUnlocalized == "ERROR"
}

// begin opens a transaction for the group.
func begin(group *group) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	if group.lock < gateLockTimeout {
		b.Queue(setLockTimeout, strconv.FormatInt(max(group.lock.Milliseconds(), 1), 10))
	}
	if group.lane.commits != "" {
		b.Queue(setCommit, group.lane.commits)
	}
	return b
}

// queueInsert queues the insertion of the events. Its result says which of them are new.
func (g *Gate) queueInsert(b *pgx.Batch, group *group) {
	insert := g.insertion(group)
	b.Queue(insert.of(len(group.keyEntries)), insert.columns.AppendEach(nil, group.keyEntries)...).Query(func(rows pgx.Rows) error {
		fresh := make(map[inbox.ID]bool, len(group.keyEntries))
		var id inbox.ID
		var suspected bool
		_, err := pgx.ForEachRow(rows, []any{&id, &suspected}, func() error {
			fresh[id] = suspected
			return nil
		})
		g.repeated.Store(len(fresh) < len(group.keyEntries))
		for _, l := range group.keyEntries {
			l.suspected, l.inserted = fresh[l.id], false
			if _, ok := fresh[l.id]; ok {
				l.inserted, l.row, l.rowSHA, l.admittedAs = true, l.id, l.stored, l.admission
			}
		}
		return err
	})
}

// insert opens the transaction, inserts the events and reads which of them are new.
func (g *Gate) insert(ctx context.Context, conn Conn, group *group) error {
	b := begin(group)
	g.queueInsert(b, group)
	b.Queue(readEvents, keyColumns.AppendEach(nil, group.keyEntries)...).Query(func(rows pgx.Rows) error {
		return readFoundEvents(rows, group.keyEntries)
	})
	if group.former {
		b.Queue(readFormerEvents, formerKeys.AppendEach(nil, group.keyEntries)...).Query(func(rows pgx.Rows) error {
			return readFoundEvents(rows, group.keyEntries)
		})
	}
	if group.transmissions {
		b.Queue(readTransmissions, transmissionKeys.AppendEach(nil, group.keyEntries)...).Query(func(rows pgx.Rows) error {
			return readFoundEvents(rows, group.keyEntries)
		})
	}
	classes, bodies, gone := group.storedBodies()
	if len(bodies) > 0 {
		b.Queue(lockBodies, classes, bodies).Query(func(rows pgx.Rows) error {
			var id inbox.ID
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error { delete(gone, id); return nil })
			return err
		})
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if len(gone) > 0 {
		for _, d := range gone {
			d.stored = false
		}
		return errBodyGone
	}
	for _, l := range group.keyEntries {
		if l.row.IsZero() {
			return errKeyNotFound
		}
	}
	return nil
}

func readFoundEvents(rows pgx.Rows, leads []*keyEntry) error {
	var (
		ord       int64
		id        inbox.ID
		sha       []byte
		admission string
		rearm     bool
	)
	_, err := pgx.ForEachRow(rows, []any{&ord, &id, &sha, &admission, &rearm}, func() error {
		l := leads[ord-1]
		if l.inserted || !l.row.IsZero() { // the event with its id comes before one with its transmission
			return nil
		}
		// Our own id, though this run did not insert it: a run of ours committed and
		// the answer was lost.
		l.insertedEarlier = id == l.id
		l.row, l.rowSHA, l.admittedAs, l.rearm = id, append([]byte(nil), sha...), admission, rearm
		return nil
	})
	return err
}
