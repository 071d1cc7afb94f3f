package inboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
)

// Piece is a gate that is known to be wrong.
type Piece struct {
	// Name names the flaw.
	Name string
	// Test is the test of the suite that must fail it, and Says a part of the test's
	// message: a failure for another reason (no database, say) proves nothing.
	Test, Says string
	Make       Make
}

// Museum returns the gates that [Exercise] must fail: a suite that passes one of them
// proves nothing about the gate. They share one skeleton, which without a flaw is a
// plain, slow, correct gate, and is exercised too.
func Museum() []Piece {
	const (
		redelivery = "a redelivery is a duplicate"
		lost       = "a commit whose answer is lost is still one event"
		sweep      = "whatever call fails, nothing is lost or doubled"
	)
	pieces := []Piece{
		{Name: ackBeforeCommit, Test: redelivery, Says: "was acknowledged, but is not recorded"},
		{Name: checkThenInsert, Test: "identical deliveries at once are recorded once", Says: "want one recorded"},
		{Name: secondTransaction, Test: sweep, Says: "0 effects, 0 jobs"},
		{Name: globalKey, Test: "the same id of two sources is two events", Says: "was acknowledged, but is not recorded"},
		{Name: swallowedCommit, Test: sweep, Says: "was acknowledged, but is not recorded"},
		{Name: doUpdate, Test: "a batch is recorded whole or not at all", Says: "21000"},
		{Name: unsorted, Test: "overlapping groups do not deadlock", Says: "delivering a batch"},
		{Name: freshIDs, Test: lost, Says: "was duplicate, want recorded"},
		{Name: fatalIsRollback, Test: lost, Says: "FATAL"},
		{Name: safeToRetry, Test: lost, Says: "unexpected EOF"},
		{Name: neverCompared, Test: "another payload under the same id is a conflict", Says: "the outcome was duplicate"},
	}
	for i := range pieces {
		pieces[i].Make = func(tb testing.TB, b Bench) Gate { tb.Helper(); return newWrong(tb, b, pieces[i].Name) }
	}
	return pieces
}

// Flawless is the museum's skeleton without a flaw.
func Flawless(tb testing.TB, b Bench) Gate { tb.Helper(); return newWrong(tb, b, "") }

// The flaws.
const (
	ackBeforeCommit   = "acknowledges before the commit"
	checkThenInsert   = "checks, then inserts"
	secondTransaction = "enqueues in a second transaction"
	globalKey         = "keys by event id alone"
	swallowedCommit   = "swallows the commit's error"
	doUpdate          = "updates on conflict over a group"
	unsorted          = "leaves a group unsorted"
	freshIDs          = "makes fresh ids for a second run"
	fatalIsRollback   = "takes a FATAL for a rollback"
	safeToRetry       = "believes a lost commit never happened"
	neverCompared     = "calls another payload a duplicate"
)

// wrong is a gate with one transaction for each delivery, written in the
// plainest way, and at most one flaw.
type wrong struct {
	b    Bench
	flaw string
	late sync.WaitGroup
}

func newWrong(tb testing.TB, b Bench, f string) *wrong {
	tb.Helper()
	if f == checkThenInsert {
		// The flaw checks first, because it has no constraint to rely on.
		if _, err := b.Pool.Exec(tb.Context(), `ALTER TABLE inbox_event DROP CONSTRAINT IF EXISTS inbox_event_key`); err != nil {
			tb.Fatal(err)
		}
	}
	w := &wrong{b: b, flaw: f}
	tb.Cleanup(w.late.Wait)
	return w
}

// run carries out one delivery in one transaction.
type run struct {
	*wrong
	ctx  context.Context
	conn gate.Conn
	a    *inbox.Admission
	ids  []inbox.ID // one for each event
	body inbox.ID
	out  inbox.Receipt
}

func (w *wrong) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	ctx = context.WithoutCancel(ctx)
	r := w.newRun(ctx, a)
	err := r.do()
	if err == nil {
		return r.out, nil
	}
	var pg *pgconn.PgError
	isError := errors.As(err, &pg) && (pg.SeverityUnlocalized == "ERROR" || w.flaw == fatalIsRollback)
	if !isError && w.flaw != safeToRetry {
		// Ambiguous: run again, with the same ids.
		again := r
		if w.flaw == freshIDs {
			again = w.newRun(ctx, a)
		}
		again.out = inbox.Receipt{}
		if err = again.do(); err == nil {
			return again.out, nil
		}
	}
	return inbox.Receipt{}, fmt.Errorf("%w: %w", gate.ErrUnavailable, err)
}

func (w *wrong) newRun(ctx context.Context, a *inbox.Admission) *run {
	r := &run{wrong: w, ctx: ctx, a: a, body: inbox.NewID(time.Now())}
	for range a.Events {
		r.ids = append(r.ids, inbox.NewID(time.Now()))
	}
	return r
}

func (r *run) do() (err error) {
	if r.conn, err = r.b.Acquire(r.ctx); err != nil {
		return err
	}
	broken := true
	defer func() {
		if err != nil && broken {
			_, rollback := r.conn.Exec(r.ctx, "ROLLBACK")
			broken = rollback != nil
		}
		r.conn.Release(err != nil && broken)
	}()
	if err := r.exec("BEGIN"); err != nil {
		return err
	}
	effects, err := r.insert()
	if err != nil {
		return err
	}
	if r.flaw == secondTransaction {
		if err := r.exec("COMMIT"); err != nil {
			return err
		}
		if err := r.exec("BEGIN"); err != nil {
			return err
		}
	}
	if err := r.enqueue(effects); err != nil {
		return err
	}
	return r.commit()
}

func (r *run) commit() error {
	if r.flaw == ackBeforeCommit {
		conn := r.conn
		r.conn = discarded{}
		r.late.Go(func() {
			b := &pgx.Batch{}
			b.Queue("SELECT pg_sleep(0.05)")
			b.Queue("COMMIT")
			conn.Release(conn.SendBatch(r.ctx, b).Close() != nil)
		})
		return nil
	}
	err := r.exec("COMMIT")
	if r.flaw == swallowedCommit {
		return nil
	}
	return err
}

// order is the order in which the delivery's events are inserted.
func (r *run) order() []int {
	order := make([]int, len(r.a.Events))
	for i := range order {
		order[i] = i
	}
	if r.flaw != unsorted {
		slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(r.a.Events[i].EventID, r.a.Events[j].EventID) })
	}
	return order
}

func (r *run) insert() (effects map[inbox.ID]inbox.ID, err error) {
	effects = map[inbox.ID]inbox.ID{}
	r.out.Items = make([]inbox.ItemReceipt, len(r.a.Events))
	if r.flaw == doUpdate {
		return effects, r.insertMany("DO UPDATE SET deliveries = inbox_event.deliveries + 1", effects)
	}
	for _, i := range r.order() {
		if err := r.insertOne(i, effects); err != nil {
			return nil, err
		}
	}
	return effects, nil
}

const wrongColumns = `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class,
    body_id, item, body_offset, body_length, id_unsigned, suspected_replay) `

// insertMany is the group as one statement; equal keys in it raise 21000.
func (r *run) insertMany(conflict string, effects map[inbox.ID]inbox.ID) error {
	var ids, keys, offsets, lengths = []inbox.ID{}, []string{}, []int32{}, []int32{}
	for _, i := range r.order() {
		ids, keys = append(ids, r.ids[i]), append(keys, r.a.Events[i].EventID)
		offsets, lengths = append(offsets, int32(r.a.Events[i].Offset)), append(lengths, int32(r.a.Events[i].Length))
	}
	const each = `SELECT k.id, $5, k.event_id, 'test.happened', sha256(substr($6::bytea, k.at + 1, k.n)), now(), 'ok', 'default', $7, 0, k.at, k.n, false, false
		FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[]) AS k (id, event_id, at, n) `
	var returned []inbox.ID
	err := r.query(wrongColumns+each+"ON CONFLICT ON CONSTRAINT inbox_event_key "+conflict+" RETURNING id", func(rows pgx.Rows) (err error) {
		returned, err = pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
		return err
	}, ids, keys, offsets, lengths, r.a.Source.ID, r.a.Body, r.body)
	if err != nil {
		return err
	}
	for i, id := range r.ids {
		r.out.Items[i] = inbox.ItemReceipt{ID: id, Outcome: inbox.Recorded}
		if slices.Contains(returned, id) {
			effects[id] = inbox.NewID(time.Now())
		} else if err := r.found(i); err != nil {
			return err
		}
	}
	return r.writeBody(effects)
}

func (r *run) insertOne(i int, effects map[inbox.ID]inbox.ID) error {
	event := r.a.Events[i]
	if r.flaw == checkThenInsert {
		if err := r.found(i); err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	const one = `VALUES ($1, $2, $3, 'test.happened', sha256($4::bytea), now(), 'ok', 'default', $5, $6, $7, $8, false, false) `
	sql := wrongColumns + one
	switch r.flaw {
	case checkThenInsert:
	case globalKey:
		sql = wrongColumns + `SELECT $1, $2, $3, 'test.happened', sha256($4::bytea), now(), 'ok', 'default', $5, $6, $7, $8, false, false
			WHERE NOT EXISTS (SELECT FROM inbox_event WHERE event_id = $3) ON CONFLICT DO NOTHING `
	default:
		sql += "ON CONFLICT ON CONSTRAINT inbox_event_key DO NOTHING "
	}
	fresh := false
	err := r.query(sql+"RETURNING id", func(rows pgx.Rows) error {
		fresh = rows.Next()
		rows.Close()
		return rows.Err()
	}, r.ids[i], r.a.Source.ID, event.EventID, r.a.Body[event.Offset:event.Offset+event.Length], r.body, i, event.Offset, event.Length)
	if err != nil {
		return err
	}
	if !fresh {
		return r.found(i)
	}
	r.out.Items[i] = inbox.ItemReceipt{ID: r.ids[i], Outcome: inbox.Recorded}
	effects[r.ids[i]] = inbox.NewID(time.Now())
	return r.writeBody(effects)
}

// found returns the answer for an event that is recorded already.
func (r *run) found(i int) error {
	event := r.a.Events[i]
	sql, args := `SELECT e.id, substr(b.body, e.body_offset + 1, e.body_length) FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id
		WHERE e.event_id = $1 AND e.source_id = $2 LIMIT 1`, []any{event.EventID, r.a.Source.ID}
	if r.flaw == globalKey {
		sql, args = strings.Replace(sql, " AND e.source_id = $2", "", 1), args[:1]
	}
	var id inbox.ID
	var body []byte
	err := r.query(sql, func(rows pgx.Rows) error {
		defer rows.Close()
		if !rows.Next() {
			return errors.Join(rows.Err(), pgx.ErrNoRows)
		}
		return rows.Scan(&id, &body)
	}, args...)
	if err != nil {
		return err
	}
	item := &r.out.Items[i]
	*item = inbox.ItemReceipt{ID: id, Outcome: inbox.Duplicate}
	if id == r.ids[i] {
		item.Outcome = inbox.Recorded
		return nil
	}
	if err := r.exec(`UPDATE inbox_event SET deliveries = deliveries + 1 WHERE id = $1`, id); err != nil {
		return err
	}
	other := r.a.Body[event.Offset : event.Offset+event.Length]
	first, okFirst := canonical(body)
	second, okSecond := canonical(other)
	if r.flaw == neverCompared || okFirst && okSecond && bytes.Equal(first, second) {
		return nil
	}
	item.Outcome, item.Paths = inbox.Conflict, differences(body, other)
	if err := r.exec(`UPDATE inbox_event SET conflicts = conflicts + 1 WHERE id = $1`, id); err != nil {
		return err
	}
	return r.exec(`INSERT INTO audit (id, actor, action, object) VALUES ($1, 'gate', 'conflict', 'event')`, inbox.NewID(time.Now()))
}

func (r *run) writeBody(effects map[inbox.ID]inbox.ID) error {
	if len(effects) == 0 {
		return nil
	}
	return r.exec(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '', $2) ON CONFLICT DO NOTHING`, r.body, r.a.Body)
}

func (r *run) enqueue(effects map[inbox.ID]inbox.ID) error {
	for event, effect := range effects {
		err := r.exec(`WITH j AS (INSERT INTO river_job (args, kind, max_attempts) VALUES (jsonb_build_object('effect', $1::uuid), 'effect', 25) RETURNING id)
			INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at)
			SELECT $1::uuid, $2, $3, 1, 'k', id, 'pending', now() FROM j`, effect, event, r.a.Source.Routes[0].ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) exec(sql string, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	return r.conn.SendBatch(r.ctx, b).Close()
}

func (r *run) query(sql string, read func(pgx.Rows) error, args ...any) error {
	b := &pgx.Batch{}
	b.Queue(sql, args...).Query(read)
	return r.conn.SendBatch(r.ctx, b).Close()
}

// discarded replaces a connection that was handed to another user.
type discarded struct{ gate.Conn }

func (discarded) Release(bool) {}
