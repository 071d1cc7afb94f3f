package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/relay"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// newArrival is an outbox whose source carries effects out in the order of arrival.
func newArrival(t *testing.T) *outbox {
	t.Helper()
	o := newOutbox(t)
	o.Source.Routes[0].Order = sequence.Policy{Mode: sequence.Arrival}
	o.Source.Routes[0].Sequence = func(*inbox.Admission, int) (key, number string, timed bool) { return "one", "", false }
	storetest.Exec(t, o.Pool, `UPDATE source SET emit_ordered = true`)
	return o
}

// arrivals are the event ids in the order in which the effects are carried out.
func (o *outbox) arrivals(t *testing.T) []string {
	t.Helper()
	rows, err := o.Pool.Query(t.Context(), `SELECT v.event_id FROM effect e JOIN inbox_event v ON v.id = e.event_id ORDER BY e.sequence_number`)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var same int
	o.Scan(t, `SELECT count(*) - count(DISTINCT sequence_number) FROM effect`, &same)
	if same != 0 {
		t.Errorf("%d effects share a number", same)
	}
	return ids
}

// waitingCommits counts the transactions that wait at their commit for another one's positions.
func (o *outbox) waitingCommits(t *testing.T) (n int) {
	t.Helper()
	o.Scan(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = 1869506928 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND objid::bigint & 4294967040 = hashtext(current_schema())::bigint & 4294967040`, &n)
	return n
}

// What one transaction emits arrives in the order of its calls.
func TestEmitKeepsTheOrderOfCalls(t *testing.T) {
	t.Parallel()
	o := newArrival(t)
	r := o.Relay(t, o.Gate, 7)
	var want []string
	for pair := range 20 {
		err := pgx.BeginFunc(t.Context(), o.Pool, func(tx pgx.Tx) error {
			for _, part := range []string{"b", "a"} {
				id := fmt.Sprintf("ord_%02d%s", pair, part)
				want = append(want, id)
				if _, err := tx.Exec(t.Context(), emit, id, `{}`); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := storetest.RunRelay(t, r); n != len(want) {
		t.Errorf("relayed %d of %d", n, len(want))
	}
	if got := o.arrivals(t); !slices.Equal(got, want) {
		t.Errorf("arrived as\n%v, want\n%v", got, want)
	}
	var body string
	o.Scan(t, `SELECT convert_from(substr(b.body, e.body_offset + 1, e.body_length), 'UTF8') FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id WHERE e.event_id = 'ord_07a'`, &body)
	if body != `{}` {
		t.Errorf("its bytes are %q", body)
	}
}

// Of transactions that overlap, whichever commits first arrives first, whoever
// called emit first.
func TestEmitKeepsTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	o := newArrival(t)
	var txs []pgx.Tx
	var want []string
	for i := range 5 {
		tx, err := o.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		for _, part := range []string{"x", "y"} {
			if _, err := tx.Exec(t.Context(), emit, fmt.Sprintf("tx_%d%s", i, part), `{}`); err != nil {
				t.Fatal(err)
			}
		}
		txs = append(txs, tx)
	}
	for i := range slices.Backward(txs) { // the last one first
		if err := txs[i].Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("tx_%dx", i), fmt.Sprintf("tx_%dy", i))
	}
	storetest.RunRelay(t, o.Relay(t, o.Gate, 3))
	if got := o.arrivals(t); !slices.Equal(got, want) {
		t.Errorf("arrived as %v, want %v", got, want)
	}
}

// A position that is given is visible before the next one is given: no relay sees a
// later commit without an earlier one.
func TestEmitPositionsAreVisibleInOrder(t *testing.T) {
	t.Parallel()
	o := newArrival(t)
	first, err := o.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{`SELECT emit('orders', 'first', 't', '{}')`, `SET CONSTRAINTS ALL IMMEDIATE`} { // it has its position, and goes on
		if _, err := first.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	second := make(chan error, 1)
	go func() {
		_, err := o.Pool.Exec(t.Context(), emit, "second", `{}`)
		second <- err
	}()
	inboxtest.Until(t, "the second commit to wait for the first", func() bool { return o.waitingCommits(t) == 1 })
	r := o.Relay(t, o.Gate, 0)
	if n := storetest.RunRelay(t, r); n != 0 {
		t.Errorf("relayed %d before the first was visible", n)
	}
	if err := errors.Join(first.Commit(t.Context()), <-second); err != nil {
		t.Fatal(err)
	}
	storetest.RunRelay(t, r)
	if got := o.arrivals(t); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("arrived as %v", got)
	}
}

// One relay at a time relays an ordered source: another one that comes while the
// first waits for the gate does not give later times to what is in front.
func TestRelayHasItsSourceAlone(t *testing.T) {
	t.Parallel()
	o := newArrival(t)
	want := []string{"a", "b", "c", "d"}
	for _, id := range want {
		storetest.Exec(t, o.Pool, emit, id, `{}`)
	}
	waits, goOn := make(chan struct{}), make(chan struct{})
	slow := o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		close(waits)
		<-goOn
		return o.Gate.Accept(ctx, a)
	}), 4)
	ended := make(chan error, 1)
	go func() {
		_, err := slow.Run(t.Context())
		ended <- err
	}()
	<-waits
	storetest.RunRelay(t, o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		if a.Events[0].EventID != "a" {
			return inbox.Receipt{}, gate.ErrOverloaded
		}
		return o.Gate.Accept(ctx, a)
	}), 2))
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	storetest.RunRelay(t, o.Relay(t, o.Gate, 0))
	if got := o.arrivals(t); !slices.Equal(got, want) {
		t.Errorf("arrived as %v, want %v", got, want)
	}
}

// Relays of several nodes, one that dies after the gate has taken its rows, and
// callers that commit meanwhile: each event arrives once, behind all whose commits it
// could see.
func TestRelaysKeepTheOrder(t *testing.T) {
	t.Parallel()
	o := newArrival(t)
	ctx, stop := context.WithCancel(t.Context())
	var relays, callers sync.WaitGroup
	for i := range 3 {
		relay := o.Relay(t, o.Gate, 5+i)
		relays.Go(func() {
			for ctx.Err() == nil {
				if _, err := relay.Run(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	const each = 40
	for c := range 3 {
		callers.Go(func() {
			for i := range each {
				if _, err := o.Pool.Exec(t.Context(), emit, fmt.Sprintf("c%d_%03d", c, i), `{}`); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					dying, kill := context.WithCancel(t.Context())
					_, _ = o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
						receipt, err := o.Gate.Accept(ctx, a)
						kill()
						return receipt, err
					}), 4).Run(dying)
					kill()
				}
			}
		})
	}
	callers.Wait()
	inboxtest.Until(t, "the outbox is empty", func() bool { _, waiting := o.Counts(t); return waiting == 0 })
	stop()
	relays.Wait()
	next := map[string]int{}
	for _, id := range o.arrivals(t) {
		caller, number, _ := strings.Cut(id, "_")
		if number != fmt.Sprintf("%03d", next[caller]) {
			t.Fatalf("%s arrived when %03d of %s was due", id, next[caller], caller)
		}
		next[caller]++
	}
	if len(next) != 3 || next["c0"] != each || next["c1"] != each || next["c2"] != each {
		t.Errorf("arrived are %v, want %d of each", next, each)
	}
}

// What the gate does not take holds up what comes behind it in order, and nothing
// of another source.
func TestRelayHoldsAnOrderedSource(t *testing.T) {
	t.Parallel()
	o := newArrival(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		storetest.Exec(t, o.Pool, emit, id, `{}`)
	}
	refusing := o.Relay(t, acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		if a.Events[0].EventID == "c" {
			return inbox.Receipt{}, gate.ErrOverloaded
		}
		return o.Gate.Accept(ctx, a)
	}), 1)
	if n := storetest.RunRelay(t, refusing); n != 2 {
		t.Errorf("relayed %d, want the 2 in front", n)
	}
	o.Want(t, 2, 2)
	storetest.RunRelay(t, o.Relay(t, o.Gate, 0))
	if got := o.arrivals(t); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("arrived as %v", got)
	}
}

// emit refuses a payload over the source's limit, and says what to do.
func TestEmitIsLimited(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	text := func(n int) string { return fmt.Sprintf(`{"x": %q}`, strings.Repeat("x", n-9)) } // 9 bytes beside
	storetest.Exec(t, o.Pool, emit, "fits", text(1<<20))
	_, err := o.Pool.Exec(t.Context(), emit, "over", text(1<<20+1))
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != "54000" || !strings.Contains(pg.Message, "1048577 bytes, over the limit of 1048576 bytes of source orders") ||
		!strings.Contains(pg.Hint, "SET emit_limit = ... WHERE name = 'orders'") {
		t.Errorf("%+v", pg)
	}
	storetest.Exec(t, o.Pool, `UPDATE source SET emit_limit = 2097152`)
	storetest.Exec(t, o.Pool, emit, "over", text(1<<20+1))
	if _, err := o.Pool.Exec(t.Context(), `UPDATE source SET emit_limit = 67108865`); err == nil {
		t.Error("a limit over what relays take was taken")
	}
	storetest.RunRelay(t, o.Relay(t, o.Gate, 0))
	o.Want(t, 2, 0)
}

// A pass reads bounded bytes, whatever the number of rows.
func TestRelayReadsBoundedBytes(t *testing.T) {
	t.Parallel()
	for name, ordered := range map[string]bool{"by id": false, "in order": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t)
			storetest.Exec(t, o.Pool, `UPDATE source SET emit_ordered = $1`, ordered)
			for i := range 9 {
				storetest.Exec(t, o.Pool, emit, fmt.Sprintf("ord_%d", i), fmt.Sprintf(`{"x": %q}`, strings.Repeat("x", 1000)))
			}
			storetest.Exec(t, o.Pool, emit, "large", fmt.Sprintf(`{"x": %q}`, strings.Repeat("x", 9000)))
			var mu sync.Mutex
			held, most := 0, 0
			gate := acceptFunc(func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
				mu.Lock()
				held += len(a.Body)
				if len(a.Body) < 9000 {
					most = max(most, held)
				}
				mu.Unlock()
				receipt, err := o.Gate.Accept(ctx, a)
				mu.Lock()
				held -= len(a.Body)
				mu.Unlock()
				return receipt, err
			})
			r, err := relay.New(relay.Config{
				Pool: o.Work, Gate: gate, Clock: o.Clock, Logger: slog.New(slog.DiscardHandler), Bytes: 3500, Sources: map[string]*inbox.Source{"orders": o.Source},
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := storetest.RunRelay(t, r); n != 10 {
				t.Errorf("relayed %d of 10", n)
			}
			if most > 3500 {
				t.Errorf("%d bytes were read at once, over the bound of 3500", most)
			}
		})
	}
}

// A row that can never be admitted is refused, stays, and lets the others pass. One
// whose source comes back is relayed after all.
func TestRelayRefusesWhatIsNeverAdmitted(t *testing.T) {
	t.Parallel()
	for name, ordered := range map[string]bool{"by id": false, "in order": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t)
			storetest.Exec(t, o.Pool, `INSERT INTO outbox (source, event_id, type, payload, ordered, created_at) VALUES
				('orders', '~mine', 't', '{}', $1, now()), ('orders', 'no type', '', '{}', $1, now()),
				('gone', 'old', 't', '{}', $1, now() - interval '2 hours'), ('gone', 'new', 't', '{}', $1, now())`, ordered)
			want := map[string]string{"~mine": "event_id", "no type": "type", "old": "source"}
			if !ordered { // 64 MiB and a byte are slow to make
				storetest.Exec(t, o.Pool, `INSERT INTO outbox (source, event_id, type, payload) VALUES ('orders', 'large', 't', decode(repeat('20', 67108865), 'hex'))`)
				want["large"] = "too_large"
			}
			storetest.Exec(t, o.Pool, `UPDATE source SET emit_ordered = $1`, ordered)
			storetest.Exec(t, o.Pool, emit, "good", `{}`)
			var logged bytes.Buffer
			r, err := relay.New(relay.Config{
				Pool: o.Work, Gate: o.Gate, Clock: o.Clock, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Sources: map[string]*inbox.Source{"orders": o.Source},
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := storetest.RunRelay(t, r); n != 1 {
				t.Errorf("relayed %d, want the good one", n)
			}
			lister := inboxtest.Lister(o.Pool)
			rows, err := inboxtest.Rows(lister.Outbox(t.Context(), read.OutboxFilter{Refused: true}))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, row := range rows {
				got[row.EventID] = row.Refusal
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || r.Stats().Refused != uint64(len(want)) {
				t.Errorf("refused are %v, want %v", got, want)
			}
			if strings.Count(logged.String(), "emitted events refused") != len(want) {
				t.Errorf("logged:\n%s", logged.String())
			}
			o.Want(t, 1, len(want)+1)

			// What is about to be admitted is not discarded; what is refused is, with a reason.
			all, err := inboxtest.Rows(lister.Outbox(t.Context(), read.OutboxFilter{Source: "gone"}))
			if err != nil || len(all) != 2 {
				t.Fatalf("%v, %v", all, err)
			}
			if _, err := (decide.DiscardOutbox{ID: all[1].ID, Actor: "test", Reason: "a test"}).Run(t.Context(), o.Pool); !errors.Is(err, decide.ErrNotRefused) {
				t.Errorf("discarding %s: %v, want ErrNotRefused", all[1].EventID, err)
			}
			if _, err := (decide.DiscardOutbox{ID: rows[0].ID, Actor: "test", Reason: "a test"}).Run(t.Context(), o.Pool); err != nil {
				t.Error(err)
			}

			back := *o.Source
			back.Name = "gone"
			r, err = relay.New(relay.Config{
				Pool: o.Work, Gate: o.Gate, Clock: o.Clock, Logger: slog.New(slog.DiscardHandler), Sources: map[string]*inbox.Source{"orders": o.Source, "gone": &back}, Grace: time.Nanosecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			storetest.Exec(t, o.Pool, `INSERT INTO source (name, provider, class, emit, emit_ordered) VALUES ('gone', 'operation', 'default', true, $1)`, ordered)
			if n := storetest.RunRelay(t, r); n != 2 {
				t.Errorf("relayed %d of the source that came back, want both", n)
			}
			o.Want(t, 3, len(want)-2)
		})
	}
}
