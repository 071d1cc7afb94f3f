package move_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/move"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/session"
)

// side is one of the databases of a test, with a gate.
type side struct {
	name   string
	pool   *pgxpool.Pool
	gate   *gate.Gate
	source *inbox.Source
}

func newSide(t *testing.T, name string) *side {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	s := &side{name: name, pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 4)}
	pool := inboxtest.Open(t, url, schema, session.PoolGate, 4)
	g, err := gate.New(gate.Config{Pool: pool, Enqueuer: storetest.Queue(), Clock: inboxtest.Clock(t, s.pool)})
	if err == nil {
		err = g.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop(context.WithoutCancel(t.Context())) })
	s.gate = g
	return s
}

// register registers the source with an ordered route, as a server does.
func (s *side) register(t *testing.T) {
	t.Helper()
	s.source = inboxtest.Source(t, s.pool, "shop")
	route := &s.source.Routes[0]
	route.Order = sequence.Policy{Mode: sequence.Contiguous}
	series, err := inbox.RegisterOrders(t.Context(), s.pool, nil, map[int32]inbox.OrderDefinition{route.ID: {Words: "mode contiguous", Policy: route.Order}})
	if err != nil {
		t.Fatal(err)
	}
	route.Series = series[route.ID]
}

func (s *side) accept(t *testing.T, id, number string) (inbox.Outcome, error) {
	t.Helper()
	a := inboxtest.Admission(s.source, id)
	a.Events[0].SequenceKey, a.Events[0].SequenceNumber = "customer", number
	receipt, err := s.gate.Accept(t.Context(), a)
	if err != nil {
		return "", err
	}
	return receipt.Items[0].Outcome, nil
}

func (s *side) scan(t *testing.T, sql string, into ...any) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), sql).Scan(into...); err != nil {
		t.Fatalf("%s: %s: %v", s.name, sql, err)
	}
}

// progress returns how far the databases say that the move is.
func (s *side) progress(t *testing.T, to *side) (out string) {
	t.Helper()
	for _, at := range []*side{s, to} {
		var one string
		at.scan(t, `SELECT coalesce(string_agg(state || ' ' || position, ','), '') FROM source_move`, &one)
		out += one + ";"
	}
	return out
}

func moveOf(from, to *side) *move.Move {
	return &move.Move{
		From: move.Database{Name: from.name, Pool: from.pool}, To: move.Database{Name: to.name, Pool: to.pool},
		Source: "shop", Actor: "ann", Reason: "test",
	}
}

// newPair returns a source that has applied the numbers 1 and 2, while 4 and 5 wait for 3.
func newPair(t *testing.T) (from, to *side) {
	t.Helper()
	from, to = newSide(t, "default"), newSide(t, "eu")
	from.register(t)
	for _, n := range []string{"1", "2", "4", "5"} {
		if out, err := from.accept(t, "evt_"+n, n); out != inbox.Recorded {
			t.Fatalf("%s: %s, %v", n, out, err)
		}
	}
	storetest.Exec(t, from.pool, `UPDATE effect SET state = 'done', finished_at = now(), next_at = NULL WHERE sequence_number < 3`)
	storetest.Exec(t, from.pool, `UPDATE effect SET state = 'held', next_at = NULL, reason = 'sequence_gap' WHERE sequence_number > 3`)
	storetest.Exec(t, from.pool, `UPDATE stream SET applied = 2, gap_since = now()`)
	return from, to
}

// A move is interrupted at one message to the databases after the other, until it ends. Meanwhile the first database receives while it may.
func TestMoveContinuesAfterEveryCut(t *testing.T) {
	t.Parallel()
	from, to := newPair(t)
	storetest.Exec(t, from.pool, `INSERT INTO key_recipe (route_id, digest, version, words) SELECT id, sha256('r'), 1, 'body.order' FROM route`)
	storetest.Exec(t, from.pool, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at)
		SELECT route_id, sha256('order 1'), id, now() FROM effect WHERE sequence_number = 1`)
	recorded := []string{"evt_1", "evt_2", "evt_4", "evt_5"}
	kills, reached := 0, from.progress(t, to)
	for n := 1; ; n++ {
		if now := from.progress(t, to); now != reached {
			n, reached = 1, now // so that each message of the steps that follow is cut as well
		}
		var cut inboxtest.Cut
		m := moveOf(from, to)
		m.From.Pool, m.To.Pool = cut.Pool(t, from.pool), cut.Pool(t, to.pool)
		for _, pool := range []*pgxpool.Pool{m.From.Pool, m.To.Pool} {
			if err := pool.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		cut.Arm(n, n%2 == 0)
		_, err := m.Run(t.Context())
		m.From.Pool.Close()
		m.To.Pool.Close()
		if err == nil {
			break
		}
		if !cut.Struck() {
			t.Fatalf("after %d cuts: %v", kills, err)
		}
		kills++
		id := fmt.Sprint("a_late_", kills) // before what the copy has passed
		switch out, err := from.accept(t, id, ""); {
		case err == nil && out == inbox.Recorded:
			recorded = append(recorded, id)
			storetest.Exec(t, from.pool, `UPDATE effect SET state = 'done', finished_at = now(), next_at = NULL, reason = NULL WHERE sequence_number IS NULL`)
		case !errors.Is(err, gate.ErrUnavailable):
			t.Fatalf("after %d cuts the first database answered %s, %v", kills, out, err)
		}
	}
	if kills < 20 {
		t.Errorf("the move was cut %d times, want at least 20", kills)
	}
	t.Logf("%d cuts, %d events", kills, len(recorded))
	to.register(t)
	for _, id := range recorded {
		number, _ := strings.CutPrefix(id, "evt_")
		if out, err := to.accept(t, id, number); out != inbox.Duplicate || err != nil {
			t.Errorf("%s in the other database: %s, %v, want a duplicate", id, out, err)
		}
		if out, err := from.accept(t, id, number); !errors.Is(err, gate.ErrUnavailable) {
			t.Errorf("%s in the first database: %s, %v, want that it is refused", id, out, err)
		}
	}
	if out, err := to.accept(t, "evt_3", "3"); out != inbox.Recorded {
		t.Errorf("a new event in the other database: %s, %v", out, err)
	}
	var applied, waiting, streams string
	var keys, visible int
	to.scan(t, `SELECT (SELECT string_agg(applied::text, ',') FROM stream WHERE applied IS NOT NULL),
		(SELECT string_agg(sequence_number::text || ' ' || state, ',' ORDER BY sequence_number) FROM effect WHERE sequence_number IS NOT NULL),
		(SELECT string_agg(encode(key_hash, 'hex'), ',') FROM stream),
		(SELECT count(*) FROM effect_key), (SELECT count(*) FROM inbox_event WHERE NOT copied)`, &applied, &waiting, &streams, &keys, &visible)
	if applied != "2" || waiting != "3 pending,4 pending,5 pending" || strings.Contains(streams, ",") || keys != 1 || visible != 1 {
		t.Errorf("the other database has applied %s, effects %s, streams %s, %d keys and shows %d events", applied, waiting, streams, keys, visible)
	}
	var left string
	from.scan(t, `SELECT string_agg(state || ' ' || coalesce(reason, ''), ',' ORDER BY sequence_number) FROM effect WHERE sequence_number IS NOT NULL`, &left)
	if left != "done ,done ,skipped moved,skipped moved" {
		t.Errorf("the first database has %s", left)
	}
	var refused *pgconn.PgError
	if _, err := from.pool.Exec(t.Context(), `UPDATE effect SET state = 'pending', next_at = now(), finished_at = NULL WHERE sequence_number = 1`); !errors.As(err, &refused) || refused.Code != inbox.CodeMovedEffect {
		t.Errorf("repeating an effect in the first database gave %v, want %s", err, inbox.CodeMovedEffect)
	}
}

// The other database takes deliveries while effects of the first one have not ended, and begins its own only then.
func TestMoveWaitsForEffects(t *testing.T) {
	t.Parallel()
	from, to := newPair(t)
	storetest.Exec(t, from.pool, `UPDATE effect SET state = 'retry', next_at = now() + interval '1 hour', finished_at = NULL WHERE sequence_number = 2`)
	storetest.Exec(t, from.pool, `UPDATE stream SET applied = 1, gap_since = NULL`)
	m := moveOf(from, to)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := 0
	m.Report = func(p move.Progress) {
		if p.Step != move.StepOpen || p.Unfinished == 0 {
			return
		}
		if waits++; waits < 3 {
			return
		}
		if p.Unfinished != 3 {
			t.Errorf("%d effects are unfinished, want the one that is retried and the two behind it", p.Unfinished)
		}
		cancel()
	}
	if _, err := m.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the move ended with %v while an effect was unfinished", err)
	}
	to.register(t)
	if out, err := to.accept(t, "evt_3", "3"); out != inbox.Recorded {
		t.Errorf("a delivery while the effects wait: %s, %v", out, err)
	}
	paused, err := pause.List(t.Context(), to.pool, "")
	if err != nil || len(paused) != 1 || paused[0].Name != "shop/all" || !strings.Contains(paused[0].Reason, "moves here from the database default") {
		t.Errorf("paused are %+v, %v; want the ordered route", paused, err)
	}
	watch := pause.NewWatch(to.pool)
	if _, _, err := watch.Look(t.Context()); err != nil || !watch.Route(to.source.Routes[0].ID, "sink") {
		t.Errorf("a server does not let the route wait: %v", err)
	}
	storetest.Exec(t, from.pool, `UPDATE effect SET state = 'done', next_at = NULL, finished_at = now() WHERE sequence_number = 2`)
	storetest.Exec(t, from.pool, `UPDATE stream SET applied = 2, gap_since = now()`)
	m.Report = nil
	if p, err := m.Run(t.Context()); err != nil || p.Step != move.StepSettled {
		t.Fatalf("%+v, %v", p, err)
	}
	if paused, err := pause.List(t.Context(), to.pool, ""); err != nil || len(paused) > 0 {
		t.Errorf("paused are %+v, %v after the move", paused, err)
	}
	var applied string
	to.scan(t, `SELECT applied::text FROM stream`, &applied)
	if applied != "2" {
		t.Errorf("applied is %s, want 2", applied)
	}
	if p, err := m.Run(t.Context()); err != nil || p.Step != move.StepSettled {
		t.Errorf("the same move again: %+v, %v", p, err)
	}
}

// An operator may discard an effect in the first database after the other one has got it, if the move is interrupted in between. It does not
// happen then.
func TestMoveKeepsDecisions(t *testing.T) {
	t.Parallel()
	from, to := newPair(t)
	inBoth := func() bool {
		var there, waits int
		to.scan(t, `SELECT count(*) FROM effect`, &there)
		from.scan(t, `SELECT count(*) FROM effect WHERE state = 'held'`, &waits)
		return there == 2 && waits == 2
	}
	reached := from.progress(t, to)
	for n := 1; !inBoth(); n++ {
		if now := from.progress(t, to); now != reached {
			n, reached = 1, now
		}
		var cut inboxtest.Cut
		m := moveOf(from, to)
		m.From.Pool, m.To.Pool = cut.Pool(t, from.pool), cut.Pool(t, to.pool)
		cut.Arm(n, n%2 == 0)
		_, err := m.Run(t.Context())
		m.From.Pool.Close()
		m.To.Pool.Close()
		if err == nil {
			t.Fatal("the move ended without an interruption between the two commits")
		}
	}
	storetest.Exec(t, from.pool, `UPDATE effect SET state = 'skipped', reason = 'discarded', finished_at = now() WHERE sequence_number = 4`)
	if _, err := moveOf(from, to).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var numbers string
	to.scan(t, `SELECT coalesce(string_agg(sequence_number::text, ','), '') FROM effect`, &numbers)
	if numbers != "5" {
		t.Errorf("the other database carries out the numbers %q, want 5 alone", numbers)
	}
}

// A source that moves back finds the keys of both databases, and the first one takes its deliveries again.
func TestMoveBack(t *testing.T) {
	t.Parallel()
	from, to := newSide(t, "default"), newSide(t, "eu")
	from.register(t)
	storetest.Exec(t, from.pool, `INSERT INTO source_definition (id, name, content, key_id, enabled, revision, actor, reason)
		VALUES (gen_random_uuid(), 'shop', 'as created', 1, true, 1, 'ann', 'test')`)
	end := func(s *side) {
		storetest.Exec(t, s.pool, `UPDATE effect SET state = 'done', next_at = NULL, finished_at = now() WHERE state = 'pending'`)
	}
	for i, s := range []*side{from, to, from} {
		if i > 0 {
			before := []*side{from, to}[i-1]
			if _, err := moveOf(before, s).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.register(t)
			var content string
			s.scan(t, `SELECT string_agg(convert_from(content, 'UTF8'), ',') FROM source_definition`, &content)
			if want := []string{"", "as created", "changed"}[i]; content != want {
				t.Errorf("move %d: the definition is %q, want %q", i, content, want)
			}
			storetest.Exec(t, s.pool, `UPDATE source_definition SET content = 'changed'`)
		}
		for known := range i {
			if out, err := s.accept(t, fmt.Sprint("evt_", known), fmt.Sprint(known+1)); out != inbox.Duplicate {
				t.Errorf("move %d: event %d: %s, %v", i, known, out, err)
			}
		}
		if out, err := s.accept(t, fmt.Sprint("evt_", i), fmt.Sprint(i+1)); out != inbox.Recorded {
			t.Fatalf("move %d: %s, %v", i, out, err)
		}
		end(s)
		storetest.Exec(t, s.pool, fmt.Sprintf(`UPDATE stream SET applied = %d`, i+1))
	}
	at, err := move.Residences(t.Context(), from.pool)
	if err != nil || !at["shop"].Here() || at["shop"].Left() || at["shop"].Step != move.StepSettled {
		t.Errorf("%+v, %v", at, err)
	}
	if at, err = move.Residences(t.Context(), to.pool); err != nil || at["shop"].Here() || !at["shop"].Left() {
		t.Errorf("%+v, %v", at, err)
	}
}

// A second command does not move a source that one moves.
func TestMoveIsAlone(t *testing.T) {
	t.Parallel()
	from, to := newPair(t)
	m, started, goOn := moveOf(from, to), make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.Report = func(move.Progress) { once.Do(func() { close(started); <-goOn }) }
	ended := make(chan error, 1)
	go func() {
		_, err := m.Run(t.Context())
		ended <- err
	}()
	<-started
	if _, err := moveOf(from, to).Run(t.Context()); !errors.Is(err, move.ErrRunning) {
		t.Errorf("a second command: %v, want %v", err, move.ErrRunning)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := moveOf(from, to).Run(t.Context()); err != nil {
		t.Errorf("after the first one has ended: %v", err)
	}
}

// Databases whose hashes are made with different secrets could not compare payloads.
func TestMoveNeedsOneSecret(t *testing.T) {
	t.Parallel()
	from, to := newPair(t)
	m := moveOf(from, to)
	m.Keys = storetest.RingOf(t, storetest.FirstKey+" active")
	for _, s := range []*side{from, to} {
		if err := inbox.ShareInstallationSecret(t.Context(), s.pool, s.pool, m.Keys); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Run(t.Context()); !errors.Is(err, move.ErrSecrets) {
		t.Errorf("%v, want %v", err, move.ErrSecrets)
	}
	storetest.Exec(t, to.pool, `DELETE FROM order_secret`)
	if err := inbox.ShareInstallationSecret(t.Context(), from.pool, to.pool, m.Keys); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(t.Context()); err != nil {
		t.Errorf("with one secret: %v", err)
	}
}

// What cannot move is refused, and nothing is changed.
func TestMoveRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare string
		in      string
		want    error
	}{
		"an unknown source": {`UPDATE source SET name = 'other'`, "default", move.ErrUnknown},
		"an outbox":         {`UPDATE source SET emit = true`, "default", move.ErrStays},
		"a dead letter":     {`UPDATE effect SET state = 'dead', reason = 'other', finished_at = NULL, next_at = NULL WHERE sequence_number = 1`, "default", move.ErrUndecided},
		"the name is taken": {`WITH s AS (INSERT INTO source (name, provider, class) VALUES ('shop', 'test', 'default') RETURNING id)
			INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
			SELECT gen_random_uuid(), id, 'x', '', sha256(''), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 0, false, false FROM s`, "eu", move.ErrOccupied},
		"another key name":        {`INSERT INTO source (name, key_name, provider, class) VALUES ('shop', 'store', 'test', 'default')`, "eu", move.ErrOccupied},
		"it moves somewhere else": {`INSERT INTO source_move (source_id, direction, other, state, actor, reason) SELECT id, 'out', 'us', 'copying', 'a', 'r' FROM source`, "default", move.ErrOther},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := newPair(t)
			storetest.Exec(t, map[string]*side{"default": from, "eu": to}[c.in].pool, c.prepare)
			if _, err := moveOf(from, to).Run(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			var triggers int
			to.scan(t, `SELECT count(*) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE c.relnamespace = current_schema()::regnamespace AND g.tgname LIKE 'source_move%'`, &triggers)
			if triggers > 0 {
				t.Errorf("%d triggers are left", triggers)
			}
		})
	}
}
