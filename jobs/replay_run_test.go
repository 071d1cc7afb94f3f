package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
)

func labelled(name, value string) replay.Scope {
	return replay.Scope{Label: &read.EventLabel{Name: name, Value: value}}
}

// planned are the effects that a plan would send.
func planned(t *testing.T, r *replay.Store, p *replay.Replay) (out []inbox.ID) {
	t.Helper()
	items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
	if err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if items[i].Action != replay.ActionNone {
			out = append(out, *items[i].Effect)
		}
	}
	return out
}

func wantPlanned(t *testing.T, what string, r *replay.Store, p *replay.Replay, want ...inbox.ID) {
	t.Helper()
	got := planned(t, r, p)
	missing := map[inbox.ID]bool{}
	for _, id := range want {
		missing[id] = true
	}
	for _, id := range got {
		delete(missing, id)
	}
	if len(missing) > 0 || len(got) != len(want) {
		t.Errorf("%s: the plan has %v, want %v", what, got, want)
	}
}

const indexLabel = `INSERT INTO event_label (event_id, name, value) VALUES ($1, $2, convert_to($3, 'UTF8'))`

// A replay of a label sends what is at rest of the events that have it, wherever the label is kept, and nothing else. Its row
// says so for good.
func TestAReplayOfALabel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 6)
	b.died()
	b.exec(`UPDATE effect SET state = 'done', finished_at = now(), reason = NULL WHERE id = $1`, ids[4])
	b.exec(indexLabel, ids[0], "order", "7")
	// Nothing has moved these labels into the index yet. The first one is there as well, as after an indexer that failed half-way.
	b.exec(`INSERT INTO event_label_batch (id, event_id, name, value) VALUES ($1, ARRAY[$1, $2, $3]::uuid[], '{order,order,order}', ARRAY['7'::bytea, '7', '70'])`, ids[1], ids[0], ids[2])
	b.exec(indexLabel, ids[2], "customer", "7")
	b.exec(indexLabel, ids[4], "order", "7")

	r := b.replays(replay.Config{})
	wantPlanned(t, "every state", r, plan(t, r, labelled("order", "7"), replay.Options{IncludeDone: true, NewKey: true}), ids[0], ids[1], ids[4])
	narrowed := labelled("order", "7")
	narrowed.Type = "another"
	wantPlanned(t, "with a filter", r, plan(t, r, narrowed, replay.Options{}))
	later := labelled("order", "7")
	later.Since = time.Now().Add(time.Hour)
	wantPlanned(t, "received later", r, plan(t, r, later, replay.Options{}))

	p := plan(t, r, labelled("order", "7"), replay.Options{})
	wantPlanned(t, "order 7", r, p, ids[0], ids[1])
	b.exec(indexLabel, ids[3], "order", "7") // a plan is what it was
	start(t, r, p)
	run(t, r, p.ID)
	for i, want := range []string{"pending", "pending", "dead", "dead", "done", "dead"} {
		if got := b.row(ids[i]).State; got != want {
			t.Errorf("effect %d is %s, want %s", i, got, want)
		}
	}
	again, err := r.Status(t.Context(), p.ID)
	if err != nil || again.Scope.OfRun() != "label order=7" || again.Nothing() != "" {
		t.Errorf("its row has %q and %q, %v", again.Scope.OfRun(), again.Nothing(), err)
	}
	if n := b.count(`SELECT count(*) FROM audit WHERE action = 'replay.plan' AND (after -> 'scope' -> 'label') ? 'value'`); n != 0 {
		t.Errorf("%d entries of the audit, which nobody can erase, have the value of a label", n)
	}
}

// A plan of a label says in one line whether no event has it, or nothing of its events is at rest. Another tenant's events do not
// count.
func TestAPlanOfNothingSaysWhy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 2)
	b.exec(indexLabel, ids[0], "order", "7")
	b.exec(indexLabel, ids[1], "order", "8")
	b.exec(`UPDATE inbox_event SET tenant = 'acme' WHERE id = $1`, ids[1])
	r := b.replays(replay.Config{})
	of := func(value, tenant string) replay.Scope {
		s := labelled("order", value)
		s.Tenant = tenant
		return s
	}
	for want, scope := range map[string]replay.Scope{
		"no event has the label order=9":                                                         of("9", ""),
		"the events with the label order=7 have nothing at rest that the plan takes":             of("7", ""),
		"the events with the label order=8 have nothing at rest that the plan takes":             of("8", "acme"),
		"no event has the label order=8":                                                         of("8", "blue"),
		"run 42 of source shop has nothing at rest that the plan takes, or there is no such run": {Run: "42", DeadFilter: read.DeadFilter{Source: "shop"}},
		"no event has the label order=7 and run 42 of source shop":                               {Run: "42", Label: &read.EventLabel{Name: "order", Value: "7"}, DeadFilter: read.DeadFilter{Source: "shop"}},
	} {
		p := plan(t, r, scope, replay.Options{})
		if p.Summary.Items != 0 || p.Nothing() != want {
			t.Errorf("%d items, %q, want none and %q", p.Summary.Items, p.Nothing(), want)
		}
	}
	if p := plan(t, r, replay.Scope{All: true}, replay.Options{}); p.Nothing() != "" {
		t.Errorf("a plan of everything says %q", p.Nothing())
	}
	for name, scope := range map[string]replay.Scope{
		"a run of no source": {Run: "42"}, "ids and a label": {IDs: ids, Label: &read.EventLabel{Name: "order", Value: "7"}},
		"all and a run": {All: true, Run: "42", DeadFilter: read.DeadFilter{Source: "shop"}},
	} {
		if _, err := r.Plan(t.Context(), replay.PlanRequest{Scope: scope, Actor: actor}); !errors.Is(err, replay.ErrScope) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run is the first part of the keys of a source, whole.
func TestAReplayOfARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	names := []string{"planner:charge:42:1", "other:note:42", "planner:charge:421:1", "planner:charge:4:42", "planner:charge:142:1", "42"}
	ids := b.admit(repeatable, len(names))
	for i, id := range ids {
		b.exec(`UPDATE inbox_event SET event_id = $2 WHERE id = $1`, id, names[i])
	}
	b.died()
	b.exec(indexLabel, ids[0], "order", "7")
	r := b.replays(replay.Config{Judge: judgeFunc(func(e *replay.RecordedEvent) []replay.Judgement {
		return []replay.Judgement{{RouteID: b.routes[once], Verdict: replay.VerdictNewRoute}}
	})})
	scope := replay.Scope{Run: "42", DeadFilter: read.DeadFilter{Source: "shop"}}
	p := plan(t, r, scope, replay.Options{})
	wantPlanned(t, "run 42", r, p, ids[0], ids[1])
	if p.Scope.OfRun() != "run 42 of source shop" {
		t.Errorf("the plan is of %q", p.Scope.OfRun())
	}
	scope.Source = "another"
	wantPlanned(t, "of another source", r, plan(t, r, scope, replay.Options{}))
	scope.Source, scope.Label = "shop", &read.EventLabel{Name: "order", Value: "7"}
	wantPlanned(t, "with a label", r, plan(t, r, scope, replay.Options{}), ids[0])
	scope.Label = nil
	b.exec(`UPDATE effect SET state = 'done', finished_at = now(), reason = NULL`)
	if p := plan(t, r, scope, replay.Options{NewRoutes: true}); p.Summary.ToDo != 2 {
		t.Errorf("new routes: %d effects would be made, want 2", p.Summary.ToDo)
	}
}

// The value of a label is content: with a keyring a plan keeps its name alone, and an erased event takes its value out of the plans.
func TestAPlanDoesNotKeepWhatIsErased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := append(b.admit(repeatable, 1), b.admit(repeatable, 1)...) // two deliveries
	b.died()
	b.exec(indexLabel, ids[0], "customer", "ann")
	b.exec(indexLabel, ids[1], "customer", "bob")
	r := b.replays(replay.Config{})
	ann, bob := plan(t, r, labelled("customer", "ann"), replay.Options{}), plan(t, r, labelled("customer", "bob"), replay.Options{})
	key := b.text(`SELECT event_id FROM inbox_event WHERE id = '` + ids[0].String() + `'`)
	if _, err := prune.EraseEvent(t.Context(), b.pool, prune.Erase{Source: "shop", EventID: key, Actor: actor, Reason: why}); err != nil {
		t.Fatal(err)
	}
	says := func(p *replay.Replay, want string) {
		t.Helper()
		again, err := r.Status(t.Context(), p.ID)
		if err != nil || again.Scope.OfRun() != want {
			t.Errorf("the plan is of %q, %v, want %q", again.Scope.OfRun(), err, want)
		}
	}
	says(ann, "label customer (the value was erased)")
	says(bob, "label customer=bob")

	keys := keyring(t, oldKey+" active")
	b.reseal(keys)
	says(bob, "label customer (only its hash is kept)")
	b.keyring = keys
	r = b.replays(replay.Config{})
	sealed := plan(t, r, labelled("customer", "bob"), replay.Options{})
	wantPlanned(t, "hashed", r, sealed, ids[1])
	says(sealed, "label customer (only its hash is kept)")
	if rows := b.text(`SELECT string_agg(x::text, '') FROM replay x`) + b.text(`SELECT string_agg(x::text, '') FROM audit x WHERE action = 'replay.plan'`); strings.Contains(rows, "bob") {
		t.Errorf("the tables have the value: %s", rows)
	}
}
