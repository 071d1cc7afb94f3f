package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// bundle is a gate that the test starts, with what only the gate's tests do to it.
type bundle struct{ *storetest.Bench }

func setup(t *testing.T, change func(*gate.Config)) *bundle {
	t.Helper()
	return &bundle{storetest.NewBench(t, change)}
}

// oneFlusher makes what is queued before the start one group: of two flushers each may
// take one of the deliveries.
func oneFlusher(c *gate.Config) { c.Flushers = 1 }

// What replays give way by: each delivery once, with the time from its coming to its
// commit, also when it was no new one.
func TestGateCountsWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const held = 30 * time.Millisecond
	began := time.Now()
	answers := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_1"))
			answers <- err
		}()
	}
	b.Queued(t, 2)
	<-time.After(held) // the gate has not been started
	b.Start(t)
	for range 2 {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	if s := b.Gate.Stats(); s.Answered != 2 || s.Waited < 2*held || s.Waited > 2*time.Since(began) {
		t.Errorf("%d answered after %s in all, want 2 after at least %s", s.Answered, s.Waited, 2*held)
	}
}

func TestGateMakesAMissingPartition(t *testing.T) {
	t.Parallel()
	b := setup(t, oneFlusher)
	day := "inbox_body_default" + time.Now().UTC().Format("_20060102")
	if _, err := b.Pool.Exec(t.Context(), "DROP TABLE "+day); err != nil {
		t.Fatal(err)
	}
	for _, a := range b.Together(t, inboxtest.Admission(b.Source, "evt_1"), inboxtest.Admission(b.Source, "evt_2")) {
		if a.Err != nil || a.Receipt.Items[0].Outcome != inbox.Recorded {
			t.Errorf("got %v, %v, want recorded", a.Receipt, a.Err)
		}
	}
	if made := b.Gate.Stats().Partitions; made != 1 {
		t.Errorf("the gate made partitions %d times, want once", made)
	}
}

// TestGateFailsOneAlone holds the key of one delivery of a group in another
// transaction: only that one may be told to come back.
func TestGateFailsOneAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, oneFlusher)
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class,
		body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
		VALUES (gen_random_uuid(), $1, 'held', '', sha256(''), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 0, false, false)`, b.Source.ID); err != nil {
		t.Fatal(err)
	}
	answers := b.Together(t, inboxtest.Admission(b.Source, "free_1"), inboxtest.Admission(b.Source, "held"), inboxtest.Admission(b.Source, "free_2"))
	for i, want := range []bool{true, false, true} {
		if got := answers[i].Err == nil; got != want {
			t.Errorf("delivery %d: error %v, want success %t", i, answers[i].Err, want)
		}
	}
	if err := answers[1].Err; !errors.Is(err, gate.ErrUnavailable) || !strings.Contains(err.Error(), "stripe/held") {
		t.Errorf("the held one got %v, want ErrUnavailable with the key", err)
	}
	if b.Gate.Stats().Splits != 1 {
		t.Errorf("the group was split %d times, want once", b.Gate.Stats().Splits)
	}
}

func TestGateIsBounded(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*gate.Config){
		"by deliveries": func(c *gate.Config) { c.QueueEvents = 2 },
		"by bytes":      func(c *gate.Config) { c.QueueBytes = 2*(512+28) + 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, change)
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, fmt.Sprintf("evt_%d", i))); err != nil {
						t.Errorf("a delivery that fitted got %v", err)
					}
				})
			}
			b.Queued(t, 2)
			if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_3")); !errors.Is(err, gate.ErrOverloaded) {
				t.Errorf("a delivery that does not fit got %v, want ErrOverloaded", err)
			}
			b.Start(t)
			wg.Wait()
			if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_3")); err != nil {
				t.Errorf("with room again: %v", err)
			}
			if waiting := b.Gate.Stats().QueuedBytes; waiting != 0 {
				t.Errorf("%d bytes of the budget were not returned before the answer", waiting)
			}
		})
	}
}

func TestGateStopCommitsWhatWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_1")); err != nil {
			t.Errorf("the one that waited got %v", err)
		}
	})
	b.Queued(t, 1)
	b.Start(t)
	for range 2 { // twice is allowed
		if err := b.Gate.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_2")); !errors.Is(err, gate.ErrUnavailable) {
		t.Errorf("after Stop: %v, want ErrUnavailable", err)
	}
}

func TestGateIgnoresTheSendersDisconnect(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	receipt, err := b.Gate.Accept(gone, inboxtest.Admission(b.Source, "evt_1"))
	if err != nil || receipt.Items[0].Outcome != inbox.Recorded {
		t.Errorf("got %v, %v, want recorded", receipt, err)
	}
}

func TestGateKeepsWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ id, kind, unusable string }{
		"said so by the provider": {"evt_1", "a", "the id is not a string"},
		"no id":                   {"", "a", ""},
		"an id too long":          {strings.Repeat("x", 256), "a", ""},
		"NUL in the id":           {"a\x00b", "a", ""},
		"not UTF-8":               {"a\xffb", "a", ""},
		"a type too long":         {"evt_1", strings.Repeat("x", 256), ""},
		"NUL in the type":         {"evt_1", "a\x00", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil)
			b.Start(t)
			deliver := func() inbox.ItemReceipt {
				a := inboxtest.AdmissionOf(b.Source, test.id, "\x00 not json \xff")
				a.Events[0].Type, a.Events[0].Unusable = test.kind, test.unusable
				receipt, err := b.Gate.Accept(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				return receipt.Items[0]
			}
			if first := deliver(); first.Outcome != inbox.Recorded || !first.Unusable || first.Effects != 0 {
				t.Errorf("got %+v, want recorded as unusable without effects", first)
			}
			if again := deliver(); again.Outcome != inbox.Duplicate || !again.Unusable {
				t.Errorf("a redelivery gave %+v, want a duplicate", again)
			}
			var id, admission, detail string
			var body []byte
			b.Scan(t, `SELECT event_id, admission, admission_detail, body FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id`, &id, &admission, &detail, &body)
			// sha256 of those bytes, by sha256sum.
			if want := "~ea13512eb50be81a966dabaa6ae278d36fdc6f88bbb6f845747981a065235d04"; id != want || admission != "unusable" || detail == "" {
				t.Errorf("recorded as %q, %s, %q", id, admission, detail)
			}
			if string(body) != "\x00 not json \xff" {
				t.Errorf("the body is %q", body)
			}
		})
	}
}

func TestGateRecordsWhatNoRouteTakes(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Source.Routes[0].Types = []string{"invoice.*"}
	b.Start(t)
	receipt, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_1"))
	if err != nil || receipt.Items[0].Effects != 0 {
		t.Fatalf("got %v, %v, want no effects", receipt, err)
	}
	var admission string
	b.Scan(t, `SELECT admission FROM inbox_event`, &admission)
	if admission != "unrouted" {
		t.Errorf("admitted as %s, want unrouted", admission)
	}
}

func TestGateAsksForARearm(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	accept := func(a *inbox.Admission) inbox.ID {
		receipt, err := b.Gate.Accept(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Items[0].ID
	}
	event := accept(inboxtest.Admission(b.Source, "evt_1"))
	accept(inboxtest.Admission(b.Source, "evt_1")) // nothing is dead: no job
	if _, err := b.Pool.Exec(t.Context(), `UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL`); err != nil {
		t.Fatal(err)
	}
	accept(inboxtest.Admission(b.Source, "evt_1"))
	var n int
	var of inbox.ID
	b.Scan(t, `SELECT count(*), (array_agg(args->>'event'))[1]::uuid FROM river_job WHERE kind = 'rearm'`, &n, &of)
	if n != 1 || of != event {
		t.Errorf("%d rearm jobs for %s, want one for %s", n, of, event)
	}
	b.Source.Rearm = -1
	accept(inboxtest.Admission(b.Source, "evt_1"))
	b.Scan(t, `SELECT count(*) FROM river_job WHERE kind = 'rearm'`, &n)
	if n != 1 {
		t.Errorf("%d rearm jobs with rearming off, want still one", n)
	}
}

func TestGateSuspectsAReplay(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	for i, test := range []struct {
		id       string
		unsigned bool
		want     bool
	}{{"1", true, false}, {"2", true, true}, {"3", false, false}} {
		a := inboxtest.AdmissionOf(b.Source, test.id, `{"same":"bytes"}`)
		a.IDUnsigned = test.unsigned
		receipt, err := b.Gate.Accept(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if got := receipt.Items[0].SuspectedReplay; got != test.want {
			t.Errorf("delivery %d: suspected %t, want %t", i, got, test.want)
		}
	}
}

func TestGateConflictWithAPrunedBody(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	if _, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, "evt_1", `{"n":1,"attempt":1}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pool.Exec(t.Context(), `DELETE FROM inbox_body`); err != nil {
		t.Fatal(err)
	}
	receipt, err := b.Gate.Accept(t.Context(), inboxtest.AdmissionOf(b.Source, "evt_1", `{"n":1,"attempt":2}`))
	if err != nil || receipt.Items[0].Outcome != inbox.Conflict {
		t.Errorf("got %v, %v, want a conflict: nothing is left to compare with", receipt, err)
	}
}

// warning is a connection whose server warns, n times, that a COMMIT was not
// confirmed by the standby.
type warning struct {
	gate.Conn
	left *int
}

func (w warning) Warned() bool {
	*w.left--
	return *w.left >= 0
}

func TestGateTakesAnUnconfirmedCommitForAmbiguous(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		warnings int
		want     error
	}{"once": {1, nil}, "again and again": {100, gate.ErrUnavailable}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *gate.Config) {
				acquire, left := gate.AcquireFrom(c.Pool), test.warnings
				c.Flushers = 1
				c.Acquire = func(ctx context.Context) (gate.Conn, error) {
					conn, err := acquire(ctx)
					return warning{conn, &left}, err
				}
			})
			b.Start(t)
			receipt, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "evt_1"))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if err == nil && receipt.Items[0].Outcome != inbox.Recorded {
				t.Errorf("the outcome was %s, want recorded: the rows are ours", receipt.Items[0].Outcome)
			}
		})
	}
}

func TestGateConnectionsNeverCancel(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	for role, refused := range map[session.PoolRole]bool{session.PoolGate: true, session.PoolAdmin: false} {
		conn, err := inboxtest.Open(t, url, schema, role, 1).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Conn().PgConn().CancelRequest(t.Context()); (err != nil) != refused {
			t.Errorf("a cancel request of the %s pool: %v, want refused %t", role, err, refused)
		}
		conn.Release()
	}
}

// TestPlans: every hot statement of the gate finds its rows through the index meant for it.
func TestPlans(t *testing.T) {
	t.Parallel()
	plans := map[string]storetest.Plan{
		"read":    {SQL: gate.ReadEvents, Want: []string{"Index Scan using inbox_event_key", "effect_event_route_item_key"}},
		"former":  {SQL: gate.ReadFormer, Want: []string{"Index Scan using inbox_event_key"}},
		"second":  {SQL: gate.ReadTransmissions, Want: []string{"Index Scan using inbox_event_transmission_key"}},
		"bump":    {SQL: gate.BumpDeliveries, Want: []string{"Index Scan using inbox_event_pkey"}},
		"streams": {SQL: gate.InsertStreams, Want: []string{"Conflict Arbiter Indexes: stream_key", "Index Only Scan using inbox_event_pkey"}},
		"labels":  {SQL: gate.InsertLabels, Want: []string{"Index Only Scan using inbox_event_pkey"}},
	}
	for _, s := range []struct {
		name string
		sql  interface {
			Few() string
			Many() string
		}
		want []string
	}{
		{"insert", gate.InsertEvents, []string{"Conflict Arbiter Indexes: inbox_event_key", "inbox_event_replay_idx"}},
		{"keyed", gate.InsertKeyed, []string{"Conflict Arbiter Indexes: inbox_event_key", "inbox_event_replay_idx", "Index Scan using inbox_event_key"}},
		{"bodies", gate.InsertBodies, []string{"Index Only Scan using inbox_event_pkey"}},
		{"effects", gate.InsertEffects, []string{"Index Only Scan using inbox_event_pkey"}},
		{"ordered", gate.InsertOrdered, []string{"Index Only Scan using inbox_event_pkey"}},
	} {
		plans[s.name+", few rows"] = storetest.Plan{SQL: s.sql.Few(), Want: s.want}
		plans[s.name+", many rows"] = storetest.Plan{SQL: s.sql.Many(), Want: s.want}
	}
	storetest.Plans(t, plans)
}

// An event is recorded for the tenant of its admission, or else of its source, and keeps it: a
// repetition for another tenant is the same event.
func TestGateRecordsTheTenant(t *testing.T) {
	t.Parallel()
	b := setup(t, oneFlusher)
	own := inboxtest.Admission(b.Source, "evt_2")
	own.Tenant = "acme"
	later := inboxtest.Admission(b.Source, "evt_2")
	later.Tenant = "globex"
	b.Together(t, inboxtest.Admission(b.Source, "evt_1"), own)
	if receipt, err := b.Gate.Accept(t.Context(), later); err != nil || receipt.Items[0].Outcome != inbox.Duplicate {
		t.Fatalf("%v, %v, want a duplicate", receipt, err)
	}
	home := *b.Source
	home.Tenant = "home"
	if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(&home, "evt_3")); err != nil {
		t.Fatal(err)
	}
	var got string
	b.Scan(t, `SELECT string_agg(event_id || '=' || coalesce(tenant, 'null'), ' ' ORDER BY event_id) FROM inbox_event`, &got)
	if want := "evt_1=null evt_2=acme evt_3=home"; got != want {
		t.Errorf("recorded for %s, want %s", got, want)
	}
}
