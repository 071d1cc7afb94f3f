package jobs_test

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// arrival is one event as it comes to the gate.
type arrival struct{ id, kind, body, key, number string }

// admitAll has the gate record the events, one delivery each, for a source with the routes.
func (b *bundle) admitAll(routes []inbox.Route, arrivals ...arrival) {
	b.tb.Helper()
	ctx := b.tb.Context()
	door, err := gate.New(gate.Config{
		Pool: inboxtest.Open(b.tb, b.url, b.schema, session.PoolGate, 4), Enqueuer: b.queue, Clock: inboxtest.Clock(b.tb, b.pool),
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := door.Start(ctx); err != nil {
		b.tb.Fatal(err)
	}
	defer func() { _ = door.Stop(context.WithoutCancel(ctx)) }()
	source := &inbox.Source{ID: b.source, Name: "shop", Class: "default", Routes: routes}
	for _, a := range arrivals {
		_, err := door.Accept(ctx, &inbox.Admission{
			Source: source, Body: []byte(a.body), Headers: []byte(`{}`), ReceivedAt: time.Now(),
			Events: []inbox.NewEvent{{EventID: a.id, Type: a.kind, Length: len(a.body), SequenceKey: a.key, SequenceNumber: a.number}},
		})
		if err != nil {
			b.tb.Fatalf("%s: %v", a.id, err)
		}
	}
}

// effectsOf gives what the routes made of an event: by route, the state and why.
func (b *bundle) effectsOf(event string) map[string]string {
	b.tb.Helper()
	rows, err := b.pool.Query(b.tb.Context(), `
		SELECT r.name, e.state || coalesce(' ' || e.reason, '')
		FROM effect e JOIN inbox_event i ON i.id = e.event_id JOIN route r ON r.id = e.route_id
		WHERE i.event_id = $1`, event)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var route, end string
		if err := rows.Scan(&route, &end); err != nil {
			b.tb.Fatal(err)
		}
		if out[route] != "" {
			b.tb.Errorf("%s has two effects of the route %s", event, route)
		}
		out[route] = end
	}
	if err := rows.Err(); err != nil {
		b.tb.Fatal(err)
	}
	return out
}

// What becomes of an event, from the gate to the end of its effects: one effect of each
// route that takes its type, none of a route that the configuration does not have, and of
// each the end that the route's condition, key and order give it.
func TestWhatEachRouteMakesOfAnEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	order := sequence.Policy{Mode: sequence.Contiguous, Start: "1"}
	b.order = map[string]sequence.Policy{once: order}
	// The route "within" is in the database and in no configuration any more.
	routes := []inbox.Route{
		{ID: b.routes[repeatable], Name: repeatable, Version: 1, Types: []string{"order.*"}, Target: repeatable, Kind: "forward"},
		{ID: b.routes[once], Name: once, Version: 1, Types: []string{"order.paid", "invoice.*"}, Target: once, Kind: "forward", Order: order},
	}
	b.admitAll(routes,
		arrival{"both", "order.paid", `{"paid":1,"order":"A"}`, "s", "1"},
		arrival{"another type", "order.shipped", `{"paid":1,"order":"B"}`, "s", "2"},
		arrival{"unpaid", "order.paid", `{"paid":0,"order":"C"}`, "s", "3"},
		arrival{"nothing about payment", "order.paid", `{"order":"D"}`, "s", "5"},
		arrival{"no key", "invoice.made", `{}`, "", ""},
		arrival{"nobody's", "customer.made", `{}`, "", ""},
		arrival{"behind a gap", "order.paid", `{"paid":1,"order":"E"}`, "s", "7"},
		arrival{"both", "order.paid", `{"paid":1,"order":"A"}`, "s", "1"}, // a redelivery
	)
	targets := map[string]*sink{repeatable: {idempotent: true}, once: {}}
	b.client(jobs.Config{
		Senders: map[string]effect.Sender{repeatable: targets[repeatable], once: targets[once]},
		Logger:  slog.New(slog.DiscardHandler),
		Routes: b.changed(func(r *jobs.Route) {
			if r.Name == repeatable {
				r.When = compile(t, `body.paid == 1`, expression.Condition)
				r.Key = &expression.Recipe{Version: 1, Fields: []*expression.Program{compile(t, `body.order`, expression.Value)}}
			}
		}),
	})
	ends := func(event string, want map[string]string) {
		t.Helper()
		var got map[string]string
		deadline := time.Now().Add(30 * time.Second)
		for got = b.effectsOf(event); !maps.Equal(got, want) && time.Now().Before(deadline); got = b.effectsOf(event) {
			<-time.After(20 * time.Millisecond)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", event, got, want)
		}
	}
	// Either of two effects with one key may own it if both are due, so the second one comes when the first has happened.
	ends("both", map[string]string{repeatable: "done", once: "done"})
	b.admitAll(routes, arrival{"the same order", "order.paid", `{"paid":1,"order":"A"}`, "s", "4"})
	for _, c := range []struct {
		event string
		want  map[string]string
	}{
		{"another type", map[string]string{repeatable: "done", once: "skipped " + string(reasons.Type)}},
		{"unpaid", map[string]string{repeatable: "skipped " + string(reasons.Condition), once: "done"}},
		{"the same order", map[string]string{repeatable: "duplicate", once: "done"}},
		{"nothing about payment", map[string]string{repeatable: "dead " + reasons.Mapping, once: "done"}},
		{"no key", map[string]string{once: "dead " + string(reasons.NoKey)}},
		{"nobody's", map[string]string{}},
		{"behind a gap", map[string]string{repeatable: "done", once: "held " + string(reasons.Gap)}},
	} {
		ends(c.event, c.want)
	}
	for name, calls := range map[string]int64{repeatable: 3, once: 4} {
		if got := targets[name].calls.Load(); got != calls {
			t.Errorf("%s was called %d times, want %d", name, got, calls)
		}
	}
}
