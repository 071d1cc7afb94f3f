package jobs_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/replay"
)

// calledAgain admits a dead operation and, in the order given, the calls that repeat
// it, each naming the one before as its parent; the last one is done.
func (b *bundle) calledAgain(route string, change string) (first, last inbox.ID) {
	b.tb.Helper()
	first = b.admit(route, 1)[0]
	b.died()
	last = b.admit(route, 1)[0]
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE inbox_event SET parent = $2 WHERE id = $1`, last, first)
	b.exec(`UPDATE effect SET `+change+` WHERE id = $1`, last)
	return first, last
}

const happened = `state = 'done', next_at = NULL, finished_at = now()`

// K1 is dead, its caller called again under K2 and that was done: a batch that replays
// K1 charges a second time.
func TestAReplayLeavesOutWhatACallerDidAgain(t *testing.T) {
	t.Parallel()
	const dead = `state = 'dead', next_at = NULL, reason = 'attempts_exhausted', last_code = '503'`
	for name, c := range map[string]struct {
		child string
		left  replay.LeftOut
	}{
		"done":                 {happened, replay.LeftOutCalledAgain},
		"going on":             {`state = 'retry', next_at = now() + interval '1 hour'`, replay.LeftOutCalledAgain},
		"perhaps done":         {`state = 'indeterminate', next_at = NULL, reason = 'timeout'`, replay.LeftOutCalledAgain},
		"dead, to be replayed": {dead, replay.LeftOutCalledAgain},
		"discarded":            {`state = 'skipped', next_at = NULL, reason = 'discarded', finished_at = now()`, ""},
		"the same effect": {`state = 'duplicate', next_at = NULL, finished_at = now(),
			duplicate_of = (SELECT v.parent FROM inbox_event v WHERE v.id = effect.event_id)`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			first, _ := b.calledAgain(repeatable, c.child)
			r := b.replays(replay.Config{})
			p := plan(t, r, everything(), replay.Options{})
			items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
			if err != nil || len(items) == 0 || items[0].Effect == nil || *items[0].Effect != first {
				t.Fatalf("%+v, %v", items, err)
			}
			if items[0].LeftOut != c.left {
				t.Errorf("left out as %q, want %q", items[0].LeftOut, c.left)
			}
			start(t, r, p)
			run(t, r, p.ID)
			if row := b.row(first); (row.State == "dead") != (c.left != "") {
				t.Errorf("the first call's effect is %+v", row)
			}
		})
	}
}

// The second call may come between the plan and its run, and by way of a third one.
func TestARunLeavesOutWhatACallerDidAfterThePlan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.admit(repeatable, 1)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(t, r, everything(), replay.Options{})
	if p.Summary.ToDo != 1 {
		t.Fatalf("%+v", p.Summary)
	}
	b.exec(`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
			id_unsigned, suspected_replay, parent)
		SELECT '00000000-0000-7000-8000-000000000001', source_id, 'between', type, body_sha256, now(), 'unrouted', class, body_id, 0, 0, 1, false, false, id FROM inbox_event`)
	third := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE inbox_event SET parent = '00000000-0000-7000-8000-000000000001' WHERE id = $1`, third)
	b.exec(`UPDATE effect SET `+happened+` WHERE id = $1`, third)
	start(t, r, p)
	run(t, r, p.ID)
	if n := b.count(`SELECT count(*) FROM effect WHERE state = 'pending'`); n != 0 {
		t.Error("the run charged again what a later call has charged")
	}
	items, err := inboxtest.Rows(r.Items(t.Context(), p.ID, replay.ItemFilter{}))
	if err != nil || len(items) != 1 || items[0].Outcome != replay.ItemChanged || items[0].Detail == "" {
		t.Errorf("%+v, %v: want it changed, with a reason", items, err)
	}
}

// A person who names the effect and says that they know may have it run.
func TestAPersonMayReplayWhatACallerDidAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, _ := b.calledAgain(repeatable, happened)
	r := b.replays(replay.Config{})
	named := replay.Scope{IDs: []inbox.ID{first}}
	if p := plan(t, r, named, replay.Options{}); p.Summary.ToDo != 0 {
		t.Error("named without saying so, it would be replayed")
	}
	_, err := r.Plan(t.Context(), replay.PlanRequest{Scope: everything(), Options: replay.Options{IncludeCalledAgain: true}, Actor: actor})
	if !errors.Is(err, replay.ErrScope) {
		t.Errorf("for a whole filter: %v", err)
	}
	p := plan(t, r, named, replay.Options{IncludeCalledAgain: true})
	start(t, r, p)
	run(t, r, p.ID)
	if row := b.row(first); row.State != "pending" {
		t.Errorf("%+v, want it replayed", row)
	}
}

// A redelivery of the first call, and a person who has it sent again without saying
// that they know of the second, charge nothing.
func TestNothingElseRepeatsWhatACallerDidAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, _ := b.calledAgain(once, happened)
	store := b.store("node-1")
	if n, err := store.Rearm(t.Context(), first); n != 0 || err != nil {
		t.Errorf("%d rearmed, %v", n, err)
	}
	b.exec(`UPDATE effect SET state = 'indeterminate', reason = 'timeout' WHERE id = $1`, first)
	resend := decide.Resolve{Effect: first, As: decide.ResolveResend, Actor: actor, Reason: why}
	if err := decide.New(store).Resolve(t.Context(), resend); !errors.Is(err, inbox.ErrCalledAgain) {
		t.Errorf("sending it again gave %v", err)
	}
	resend.CalledAgain = true
	if err := decide.New(store).Resolve(t.Context(), resend); err != nil {
		t.Error(err)
	}
	if row := b.row(first); row.State != "pending" {
		t.Errorf("%+v", row)
	}
}

// The caller of a call that no route took gets the answer that it failed. A replay that makes an effect for a new route takes that
// answer back; a call that another one follows gets no effect, since its caller has what they wanted, or will have it, by that one.
func TestAReplayMakesNoEffectOfACallThatIsFollowed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 2)
	b.exec(`DELETE FROM effect`)
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE inbox_event SET admission = 'unrouted'`)
	b.exec(`INSERT INTO operation_result (event_id, status, document, rendered_at) SELECT id, 'failed', '{}', now() FROM inbox_event`)
	r := b.replays(replay.Config{Judge: newRoute(b.routes[once])})
	p := plan(t, r, replay.Scope{IDs: ids}, replay.Options{NewRoutes: true})
	if p.Summary.ToDo != 2 {
		t.Fatalf("%+v", p.Summary)
	}
	b.exec(`INSERT INTO operation_follow (child, parent, kind, intent_hash, parent_status) VALUES (gen_random_uuid(), $1, 'instead_of', sha256('i'), 'failed')`, ids[0])
	start(t, r, p)
	run(t, r, p.ID)
	for i, want := range []string{"0 effects, 1 results", "1 effects, 0 results"} {
		if got := b.text(`SELECT (SELECT count(*) FROM effect WHERE event_id = $1) || ' effects, ' || (SELECT count(*) FROM operation_result WHERE event_id = $1) || ' results'`, ids[i]); got != want {
			t.Errorf("call %d has %s, want %s", i, got, want)
		}
	}
}
