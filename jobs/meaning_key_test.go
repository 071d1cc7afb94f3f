package jobs_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

var meaningSecret = []byte("a secret of this installation")

// meant has every route with a recipe send the keys that are made of it.
func (b *bundle) meant(routes map[int32]jobs.Route) map[int32]jobs.Route {
	for id, r := range routes {
		r.KeyOf = func(recipe []byte) string { return inbox.MeaningKey(meaningSecret, "shop", r.Name, recipe) }
		routes[id] = r
	}
	return routes
}

// forgets leaves the database as a restore does that lost what happened: neither the effects nor their keys are known.
func (b *bundle) forgets() {
	b.tb.Helper()
	b.exec(`DELETE FROM effect_key`)
	b.exec(`DELETE FROM effect`)
}

// workOff carries out the jobs that are in the queue, with a client that is stopped after that.
func (b *bundle) workOff(cfg jobs.Config) {
	b.tb.Helper()
	c, err := jobs.New(b.config(cfg))
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := c.Start(b.tb.Context()); err != nil {
		b.tb.Fatal(err)
	}
	b.nothingUnderWay()
	b.stop(c)
}

// sentKeys are the keys under which a sender was called, and what for.
type sentKeys struct {
	mu   sync.Mutex
	keys map[string][]string
}

func (s *sentKeys) note(what, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string][]string{}
	}
	if !slices.Contains(s.keys[what], key) {
		s.keys[what] = append(s.keys[what], key)
	}
}

func (s *sentKeys) of(t *testing.T, what string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys[what]) != 1 {
		t.Errorf("%s was sent under the keys %q, want one", what, s.keys[what])
		return ""
	}
	return s.keys[what][0]
}

// Two events with one meaning carry one key at the target, in every attempt, also if the database has forgotten the first one.
// Another meaning has another key, and a replay under a new key gets one. This is the same for every kind of target.
func TestOneMeaningCarriesOneKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent sentKeys
	var tries sync.Map
	target := &sink{idempotent: true, answer: func(_ context.Context, c *effect.Call) effect.Result {
		sent.note(c.Event.Type, c.Key)
		if _, again := tries.LoadOrStore(c.Event.ID, true); !again { // each effect has two attempts
			return effect.Result{Outcome: effect.Retry, Reason: reasons.Status5xx}
		}
		return effect.Result{Outcome: effect.Done}
	}}
	b.exec(`CREATE TABLE applied (type text, key text)`)
	b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO applied VALUES (event->>'type', event->>'key') $$`)
	kind, err := sql.New(sql.Config{Call: "apply_event"})
	if err != nil {
		t.Fatal(err)
	}
	routes := b.meant(b.keyed("event.type"))
	work := func() {
		b.workOff(jobs.Config{
			Routes: routes, Logger: slog.New(slog.DiscardHandler), Senders: senders(target), Transactionals: map[string]effect.Transactional{within: kind},
		})
	}
	admit := func(route, meaning string) inbox.ID {
		id := b.admit(route, 1)[0]
		b.exec(`UPDATE inbox_event SET type = $2 WHERE id = $1`, id, meaning)
		return id
	}
	keys := map[string]string{}
	for round := range 2 {
		for _, meaning := range []string{"a", "b"} {
			for _, route := range []string{repeatable, within} {
				id := admit(route, meaning)
				work()
				got := b.text(`SELECT idempotency_key FROM effect WHERE id = $1`, id)
				if event := b.text(`SELECT event_key FROM effect WHERE id = $1`, id); event != "key-"+id.String() {
					t.Errorf("the key of the event is %q", event)
				}
				if was := keys[route+meaning]; round > 0 && was != got {
					t.Errorf("%s %s: the first event had the key %s, and one after a restore %s", route, meaning, was, got)
				}
				keys[route+meaning] = got
			}
		}
		if round == 0 {
			b.forgets()
		}
	}
	if n := len(slices.Compact(slices.Sorted(maps.Values(keys)))); n != 4 {
		t.Errorf("%d keys of two meanings in two routes: %v", n, keys)
	}
	for _, meaning := range []string{"a", "b"} {
		if got := sent.of(t, meaning); got != keys[repeatable+meaning] {
			t.Errorf("sent under %s, stored is %s", got, keys[repeatable+meaning])
		}
		if n := b.count(`SELECT count(DISTINCT key) FROM applied WHERE type = $1 AND key = $2`, meaning, keys[within+meaning]); n != 1 {
			t.Errorf("the function was told other keys of %s", meaning)
		}
	}
	// A replay under a new key keeps to its own.
	id := admit(repeatable, "c")
	work()
	r := b.replays(replay.Config{})
	p := plan(t, r, replay.Scope{DeadFilter: read.DeadFilter{Source: "shop", Route: repeatable, Type: "c"}}, replay.Options{IncludeDone: true, NewKey: true})
	start(t, r, p)
	run(t, r, p.ID)
	work()
	recipe, err := routes[b.routes[repeatable]].Key.Hash(&expression.Input{Event: expression.Event{Type: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	key := b.text(`SELECT event_key FROM effect WHERE id = $1`, id)
	if got, first := b.text(`SELECT idempotency_key FROM effect WHERE id = $1`, id), inbox.MeaningKey(meaningSecret, "shop", repeatable, recipe); got != first+"~v2" || key != "key-"+id.String() {
		t.Errorf("replayed under %s, want %s~v2; the key of the event is %s", got, first, key)
	}
	b.forgets()

	// An effect that may have been sent under the key of its event keeps that, also if its route gets a recipe meanwhile.
	old := admit(repeatable, "d")
	b.exec(`UPDATE effect SET attempts = 1, unknown_since = now(), state = 'retry', next_at = now() WHERE id = $1`, old)
	work()
	if got := sent.of(t, "d"); got != "key-"+old.String() {
		t.Errorf("it may have been sent already, and was sent again under %s", got)
	}
}

// An item's key is made of the recipe and of its recipient, alone or among others, in any event.
func TestOneMeaningOfAnItemCarriesOneKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sent sentKeys
	routes := b.campaigns(true)
	for id, r := range routes {
		r.List.Render = func(call *effect.Call, item string) ([]byte, error) { return []byte(item + " as " + call.Key), nil }
		routes[id] = r
	}
	cfg := jobs.Config{Routes: b.meant(routes), Senders: senders(&sink{answer: func(_ context.Context, c *effect.Call) effect.Result {
		sent.note(string(c.Rendered), c.Key)
		return effect.Result{Outcome: effect.Done}
	}})}
	for _, to := range [][]string{{"x@a.example"}, {"x@a.example", "y@a.example"}, {"y@a.example"}, {"y@a.example", "z@a.example"}} {
		b.batch("spring", to...)
		b.workOff(cfg)
		b.forgets()
	}
	b.batch("autumn", "x@a.example")
	b.workOff(cfg)
	// The rendered text determines the key: one text for each recipient and campaign is one key for each.
	if n := len(sent.keys); n != 4 {
		t.Errorf("sent are %v, want x, y and z of spring and x of autumn, each under one key", slices.Sorted(maps.Keys(sent.keys)))
	}
	for rendered := range sent.keys {
		if key := sent.of(t, rendered); rendered[len(rendered)-len(key):] != key {
			t.Errorf("%s was sent under the key %s", rendered, key)
		}
	}
}
