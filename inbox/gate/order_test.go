package gate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/session"
)

// Where the gate puts an event in its sequence, by what the event has and what the
// route's policy says of those that lack it.
func TestPlacesAtTheGate(t *testing.T) {
	t.Parallel()
	const contiguous, latest, arrival = sequence.Contiguous, sequence.Latest, sequence.Arrival
	type row struct {
		State, Reason, Number string
		Keyed, Filtered, Due  bool
		Jobs                  int
	}
	after := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixNano()) }
	ahead, tomorrow := after(10*365*24*time.Hour), after(23*time.Hour)
	timed := &row{State: "held", Reason: "sequence_time_ahead", Keyed: true}
	pending := func(number string) *row {
		return &row{State: "pending", Number: number, Keyed: true, Due: true, Jobs: 1}
	}
	for name, c := range map[string]struct {
		policy      sequence.Policy
		kind        string
		key, number string
		want        *row // nil: no effect
		stats       inbox.OrderStats
	}{
		"a number":                  {sequence.Policy{Mode: contiguous}, "", "a", "0007", pending("7"), inbox.OrderStats{}},
		"a decimal":                 {sequence.Policy{Mode: latest}, "", "a", "-7.50", pending("-7.5"), inbox.OrderStats{}},
		"a large one":               {sequence.Policy{Mode: latest}, "", "a", strings.Repeat("9", 1000), pending(strings.Repeat("9", 1000)), inbox.OrderStats{}},
		"not a whole one":           {sequence.Policy{Mode: contiguous}, "", "a", "7.5", &row{State: "dead", Reason: "sequence_number_missing", Keyed: true}, inbox.OrderStats{MissingNumbers: 1}},
		"too large":                 {sequence.Policy{Mode: latest}, "", "a", strings.Repeat("9", 1001), &row{State: "dead", Reason: "sequence_number_missing", Keyed: true}, inbox.OrderStats{MissingNumbers: 1}},
		"no number, apply":          {sequence.Policy{Mode: latest, NoNumber: sequence.Apply}, "", "a", "", &row{State: "pending", Reason: "sequence_number_missing", Keyed: true, Due: true, Jobs: 1}, inbox.OrderStats{MissingNumbers: 1}},
		"no number, hold":           {sequence.Policy{Mode: contiguous, NoNumber: sequence.Hold}, "", "a", "x", &row{State: "held", Reason: "sequence_number_missing", Keyed: true}, inbox.OrderStats{MissingNumbers: 1}},
		"no key":                    {sequence.Policy{Mode: contiguous}, "", "", "7", &row{State: "dead", Reason: "sequence_key_missing"}, inbox.OrderStats{MissingKeys: 1}},
		"no key, apply":             {sequence.Policy{Mode: arrival, NoKey: sequence.Apply}, "", "", "", &row{State: "pending", Reason: "sequence_key_missing", Due: true, Jobs: 1}, inbox.OrderStats{MissingKeys: 1}},
		"no key, hold":              {sequence.Policy{Mode: latest, NoKey: sequence.Hold}, "", "", "7", &row{State: "held", Reason: "sequence_key_missing"}, inbox.OrderStats{MissingKeys: 1}},
		"another type":              {sequence.Policy{Mode: contiguous}, "other", "a", "7", &row{State: "pending", Number: "7", Keyed: true, Filtered: true, Due: true, Jobs: 1}, inbox.OrderStats{}},
		"another type, latest":      {sequence.Policy{Mode: latest}, "other", "a", "7", nil, inbox.OrderStats{}},
		"another type, no key":      {sequence.Policy{Mode: contiguous}, "other", "", "7", nil, inbox.OrderStats{}},
		"another type, no number":   {sequence.Policy{Mode: contiguous}, "other", "a", "", nil, inbox.OrderStats{}},
		"another type, in no order": {sequence.Policy{}, "other", "a", "7", nil, inbox.OrderStats{}},
		"a time ahead":              {sequence.Policy{Mode: latest}, "", "a", ahead, timed, inbox.OrderStats{}},
		"a time ahead, apply":       {sequence.Policy{Mode: latest, NoNumber: sequence.Apply}, "", "a", ahead, timed, inbox.OrderStats{}},
		"a time of tomorrow":        {sequence.Policy{Mode: latest}, "", "a", tomorrow, pending(tomorrow), inbox.OrderStats{}},
		"a version that looks so":   {sequence.Policy{Mode: latest}, "", "a", ahead, pending(ahead), inbox.OrderStats{}},
		"in no order":               {sequence.Policy{}, "", "a", "7", &row{State: "pending", Due: true, Jobs: 1}, inbox.OrderStats{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
			source := inboxtest.Source(t, pool, "shop")
			route := &source.Routes[0]
			source.SequenceTimes = strings.HasPrefix(name, "a time")
			route.Order, route.Types = c.policy, []string{"test.*"}
			gate, err := gate.New(gate.Config{
				Pool: inboxtest.Open(t, url, schema, session.PoolGate, 4), Enqueuer: storetest.Queue(), Clock: inboxtest.Clock(t, pool),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := gate.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = gate.Stop(context.WithoutCancel(t.Context())) })
			for range 2 { // the second one is a duplicate, and counts nothing
				a := inboxtest.Admission(source, "evt_1")
				a.Events[0].SequenceKey, a.Events[0].SequenceNumber = c.key, c.number
				if c.kind != "" {
					a.Events[0].Type = c.kind
				}
				if _, err := gate.Accept(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := pool.Query(t.Context(), `
				SELECT state, coalesce(reason, '') AS reason, coalesce(sequence_number::text, '') AS number,
					coalesce(sequence_key_hash = $1, false) AS keyed, filtered, next_at IS NOT NULL AS due,
					(SELECT count(*) FROM river_job j WHERE j.id = e.job_id) AS jobs
				FROM effect e`, inbox.SequenceKeyHash("shop", "all", c.key))
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
			if err != nil {
				t.Fatal(err)
			}
			if c.want == nil {
				if len(got) != 0 {
					t.Errorf("%+v, want no effect", got)
				}
			} else if len(got) != 1 || got[0] != *c.want {
				t.Errorf("%+v, want %+v", got, *c.want)
			}
			if stats := gate.OrderStats()[route.ID]; stats != c.stats {
				t.Errorf("%+v, want %+v", stats, c.stats)
			}
			want := "unrouted"
			if c.kind == "" {
				want = "ok"
			}
			var admission string
			if err := pool.QueryRow(t.Context(), `SELECT admission FROM inbox_event`).Scan(&admission); err != nil || admission != want {
				t.Errorf("admitted as %q, %v, want %q", admission, err, want)
			}
		})
	}
}

// A sender that waits for each answer is served in its order, whichever process takes a
// delivery and whichever time that process has, because the database assigns the numbers.
func TestArrivalIsTheOrderOfTheDatabase(t *testing.T) {
	t.Parallel()
	const events = 40
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	source := inboxtest.Source(t, pool, "shop")
	source.Routes[0].Order = sequence.Policy{Mode: sequence.Arrival}
	wrong := inbox.NewClock(pool, func() time.Time { return time.Now().Add(-3 * time.Second) }) // not compared with the database's
	processes := []*inbox.Clock{inboxtest.Clock(t, pool), wrong}
	var gates []inboxtest.Gate
	for _, clock := range processes {
		gates = append(gates, newGate(t, inboxtest.Bench{Pool: inboxtest.Open(t, url, schema, session.PoolGate, 4), Clock: clock, Queue: storetest.Queue()}))
	}
	for i := range events {
		process := i % len(processes)
		a := inboxtest.Admission(source, fmt.Sprintf("evt_%02d", i))
		a.Events[0].SequenceKey, a.ReceivedAt = "one", processes[process].Now()
		if _, err := gates[process].Accept(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	var effects, inversions, dated int
	err := pool.QueryRow(t.Context(), `
		WITH o AS (SELECT v.event_id, v.received_at, e.sequence_number FROM effect e JOIN inbox_event v ON v.id = e.event_id)
		SELECT (SELECT count(*) FROM o), count(*) FILTER (WHERE a.sequence_number >= b.sequence_number), count(*) FILTER (WHERE a.received_at > b.received_at)
		FROM o a JOIN o b ON a.event_id < b.event_id`).Scan(&effects, &inversions, &dated)
	if err != nil || effects != events || inversions != 0 {
		t.Errorf("%d effects with %d inversions, %v", effects, inversions, err)
	}
	if dated == 0 {
		t.Error("the processes agree on the time: the test shows nothing")
	}
}

// The items of one delivery carry keys and numbers of their own; the route's own
// expression comes before the event's; and in mode arrival they have the order in
// which they stand in the delivery.
func TestABatchHasManyPlaces(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	source := inboxtest.Source(t, pool, "shop")
	first, second := source.Routes[0], source.Routes[0]
	second.ID, second.Name = first.ID+1, "other"
	first.Order = sequence.Policy{Mode: sequence.Contiguous}
	first.Sequence = func(a *inbox.Admission, event int) (string, string, bool) {
		return "key_" + a.Events[event].EventID[:1], fmt.Sprint(10 - event), false
	}
	second.Order = sequence.Policy{Mode: sequence.Arrival}
	source.Routes = []inbox.Route{first, second}
	gate := newGate(t, inboxtest.Bench{
		Pool: inboxtest.Open(t, url, schema, session.PoolGate, 4), Clock: inboxtest.Clock(t, pool), Queue: storetest.Queue(),
	})
	a := inboxtest.Batch(source, "b1", "a1", "b2", "a2", "c1")
	for i := range a.Events {
		a.Events[i].SequenceKey, a.Events[i].SequenceNumber = "one", "5"
	}
	if _, err := gate.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		`SELECT string_agg(s.key_label || '=' || v.event_id || ':' || e.sequence_number, ' ' ORDER BY v.event_id) FROM effect e
			JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash JOIN inbox_event v ON v.id = e.event_id
			WHERE e.route_id = $1`: "key_a=a1:9 key_a=a2:7 key_b=b1:10 key_b=b2:8 key_c=c1:6",
		`SELECT string_agg(v.event_id, ' ' ORDER BY e.sequence_number) || ' ' || count(DISTINCT e.sequence_number) FROM effect e
			JOIN inbox_event v ON v.id = e.event_id WHERE e.route_id = $1 + 1`: "b1 a1 b2 a2 c1 5",
		`SELECT count(*) || '' FROM stream WHERE route_id IN ($1, $1 + 1)`: "4",
	} {
		var got string
		if err := pool.QueryRow(t.Context(), sql, first.ID).Scan(&got); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
