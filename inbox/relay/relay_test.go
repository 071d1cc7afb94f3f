package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/relay"
)

// outbox is an outbox with a relay, with what only the relay's tests do to it.
type outbox struct{ *storetest.Outbox }

func newOutbox(t *testing.T) *outbox {
	t.Helper()
	return &outbox{storetest.NewOutbox(t)}
}

const emit = `SELECT emit('orders', $1, 'order.paid', $2)`

func TestEmitIsPartOfItsTransaction(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	r := o.Relay(t, o.Gate, 100)
	boom := errors.New("rolled back")
	err := pgx.BeginFunc(t.Context(), o.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), emit, "never", `{}`); err != nil {
			t.Fatal(err)
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	storetest.RunRelay(t, r)
	o.Want(t, 0, 0)

	// A transaction that stays open while later ones commit is not passed over for good.
	long, err := o.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := long.Exec(t.Context(), emit, "early", `{"n": 1}`); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, o.Pool, `SELECT emit('orders', 'ord_' || n, 'order.paid', jsonb_build_object('n', n)) FROM generate_series(1, 1000) n`)
	if n := storetest.RunRelay(t, r); n != 1000 {
		t.Errorf("relayed %d of 1000", n)
	}
	o.Want(t, 1000, 0)
	if err := long.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.RunRelay(t, r)
	o.Want(t, 1001, 0)
	var kind, body string
	err = o.Pool.QueryRow(t.Context(), `SELECT e.type, convert_from(b.body, 'UTF8') FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id
		WHERE e.event_id = 'ord_7' AND EXISTS (SELECT FROM effect f WHERE f.event_id = e.id AND f.job_id IS NOT NULL)`).Scan(&kind, &body)
	if err != nil || kind != "order.paid" || body != `{"n": 7}` {
		t.Errorf("ord_7 is %q %q, %v", kind, body, err)
	}
	if s := r.Stats(); s.Relayed != 1001 || s.Duplicates+s.Conflicts+s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// The same event emitted twice is one event; another payload under its id is a
// conflict. Neither stays in the outbox.
func TestEmitTwice(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	r := o.Relay(t, o.Gate, 100)
	for _, payload := range []string{`{"n": 1}`, `{"n": 1}`, `{"n": 2}`} {
		storetest.Exec(t, o.Pool, emit, "ord_1", payload)
		storetest.RunRelay(t, r)
	}
	o.Want(t, 1, 0)
	if s := r.Stats(); s.Relayed != 1 || s.Duplicates != 1 || s.Conflicts != 1 {
		t.Errorf("%+v", s)
	}
}

// Two relays at once, and one more that is killed between accept and delete:
// each event is recorded once and no row stays.
func TestRelaysAtOnce(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	const n = 3000
	storetest.Exec(t, o.Pool, `SELECT emit('orders', 'ord_' || n, 'order.paid', '{}') FROM generate_series(1, $1::int) n`, n)
	// Killed: what it accepted is recorded, but its transaction never commits.
	ctx, kill := context.WithCancel(t.Context())
	killed := o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		receipt, err := o.Gate.Accept(ctx, a)
		kill()
		return receipt, err
	}), 500)
	if _, err := killed.Run(ctx); err == nil {
		t.Fatal("the killed relay says that it did its work")
	}
	o.Want(t, 500, n)
	var wg sync.WaitGroup
	relays := []*relay.Relay{o.Relay(t, o.Gate, 50), o.Relay(t, o.Gate, 70)}
	for _, r := range relays {
		wg.Go(func() {
			if _, err := r.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range relays { // what the other had locked when one came by
		storetest.RunRelay(t, r)
	}
	o.Want(t, n, 0)
	a, b := relays[0].Stats(), relays[1].Stats()
	if a.Relayed+b.Relayed != n-500 || a.Duplicates+b.Duplicates != 500 {
		t.Errorf("%+v and %+v: want %d relayed and 500 duplicates", a, b, n-500)
	}
	var doubled int
	if err := o.Pool.QueryRow(t.Context(), `SELECT count(*) - count(DISTINCT event_id) FROM effect`).Scan(&doubled); err != nil || doubled != 0 {
		t.Errorf("%d effects are doubled, %v", doubled, err)
	}
}

type acceptFunc func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)

func (f acceptFunc) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	return f(ctx, a)
}

// What the gate does not take stays, does not hold up what is behind it, and is
// taken later; rows of a source that this process does not know are left alone.
func TestRelayLeavesWhatItCannotRelay(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	storetest.Exec(t, o.Pool, `INSERT INTO outbox (source, event_id, type, payload) VALUES ('unknown', 'x', 'x', '')`)
	for i := range 10 {
		storetest.Exec(t, o.Pool, emit, fmt.Sprintf("ord_%d", i), `{}`)
	}
	refusing := o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		if strings.HasSuffix(a.Events[0].EventID, "0") {
			return inbox.Receipt{}, gate.ErrOverloaded
		}
		return o.Gate.Accept(ctx, a)
	}), 2)
	if n := storetest.RunRelay(t, refusing); n != 9 {
		t.Errorf("relayed %d, want 9", n)
	}
	o.Want(t, 9, 2)
	storetest.RunRelay(t, o.Relay(t, o.Gate, 2))
	o.Want(t, 10, 1)
}

// A relay that runs needs no notification and is done well within a second.
func TestRelayRuns(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	r := o.Relay(t, o.Gate, 0)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, o.Pool, emit, "ord_1", `{}`)
	inboxtest.Until(t, "the event is recorded", func() bool {
		events, waiting := o.Counts(t)
		return events == 1 && waiting == 0
	})
}

// What can never be admitted is refused where the caller sees it.
func TestEmitRefuses(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	storetest.Exec(t, o.Pool, `INSERT INTO source (name, provider, class) VALUES ('stripe', 'stripe', 'default')`)
	for name, c := range map[string]struct{ sql, want string }{
		"a source that is not open": {`SELECT emit('stripe', 'evt_1', 't', '{}')`, "not open to emit"},
		"no such source":            {`SELECT emit('nobody', 'evt_1', 't', '{}')`, "not open to emit"},
		"no source":                 {`SELECT emit(NULL, 'evt_1', 't', '{}')`, "not open to emit"},
		"no id":                     {`SELECT emit('orders', '', 't', '{}')`, "1 to 255 bytes"},
		"a long id":                 {`SELECT emit('orders', repeat('x', 256), 't', '{}')`, "1 to 255 bytes"},
		"our own form of id":        {`SELECT emit('orders', '~x', 't', '{}')`, "does not start with"},
		"a long type":               {`SELECT emit('orders', 'x', repeat('x', 256), '{}')`, "event type"},
		"no payload":                {`SELECT emit('orders', 'x', 't', NULL)`, "payload is NULL"},
	} {
		_, err := o.Pool.Exec(t.Context(), c.sql)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.Contains(pg.Message, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	o.Want(t, 0, 0)
}

// A role of its own may emit after a grant and can do nothing else, whatever its
// search path holds.
func TestEmitIsGrantedByRole(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	role := "emitter_" + o.Schema
	schema := pgx.Identifier{o.Schema}.Sanitize()
	as := func(sql string) error {
		return pgx.BeginFunc(t.Context(), o.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+role); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), sql)
			return err
		})
	}
	storetest.Exec(t, o.Pool, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, _ = o.Pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role)
		_, _ = o.Pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role)
	})
	storetest.Exec(t, o.Pool, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
	call := "SELECT " + schema + ".emit('orders', 'ord_1', 'order.paid', '{}')"
	if err := as(call); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("before the grant: %v", err)
	}
	storetest.Exec(t, o.Pool, "GRANT EXECUTE ON FUNCTION "+schema+".emit TO "+role)
	// A table of the caller's in front of ours must not be written instead.
	decoy := "CREATE TEMP TABLE outbox (source text, event_id text, type text, payload bytea) ON COMMIT DROP; SET LOCAL search_path = pg_temp; "
	if err := as(decoy + call); err != nil {
		t.Errorf("after the grant: %v", err)
	}
	if err := as("INSERT INTO " + schema + ".outbox (source, event_id, type, payload) VALUES ('orders', 'x', 't', '')"); err == nil {
		t.Error("the role may write the outbox itself")
	}
	o.Want(t, 0, 1)
}

// The rows of a paused source stay in the outbox until it is resumed.
func TestRelayLeavesAPausedSource(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	paused := true
	r, err := relay.New(relay.Config{
		Pool: o.Work, Gate: o.Gate, Clock: o.Clock, Logger: slog.New(slog.DiscardHandler), Sources: map[string]*inbox.Source{o.Source.Name: o.Source},
		Paused: func(id int32) bool { return paused && id == o.Source.ID },
	})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, o.Pool, emit, "ord_1", `{"n": 1}`)
	if n := storetest.RunRelay(t, r); n != 0 {
		t.Errorf("relayed %d of a paused source", n)
	}
	o.Want(t, 0, 1)
	paused = false
	storetest.RunRelay(t, r)
	o.Want(t, 1, 0)
}
