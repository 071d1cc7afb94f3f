package jobs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/replay"
)

// pruned makes passes of prune until one is complete, under a class that keeps effects for
// so long.
func (b *bundle) pruned(keep time.Duration) {
	b.tb.Helper()
	const long = 24 * time.Hour
	must(b.tb, prune.RegisterClasses(b.tb.Context(), b.pool, []prune.ClassRow{
		{Name: "default", Horizons: prune.Horizons{Body: long, Tombstone: long, Effects: keep, Refusals: long, Audit: long}},
	}))
	pruner, err := prune.New(prune.Config{Pool: b.pool, Effects: b.store("node-1"), Rate: -1})
	must(b.tb, err)
	b.eventually("a pass that is complete", func() bool {
		report, err := pruner.Run(b.tb.Context(), prune.Run{Anew: true})
		must(b.tb, err)
		return report.Complete
	})
}

// What a plan lists stays, past its horizon, for as long as the plan may be run or runs,
// even where the run stands still; and no longer, whether or not anybody has swept.
func TestPruneAndOpenPlans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state string
		ended bool
	}{
		"planned":               {`UPDATE replay SET expires_at = now() + interval '1 hour'`, false},
		"running, and standing": {`UPDATE replay SET state = 'running', expires_at = now() - interval '1 hour'`, false},
		"expired, not swept":    {`UPDATE replay SET expires_at = now() - interval '1 second'`, true},
		"expired":               {`UPDATE replay SET state = 'expired'`, true},
		"cancelled":             {`UPDATE replay SET state = 'cancelled'`, true},
		"never planned":         {`UPDATE replay SET state = 'planning', expires_at = now() - interval '1 second'`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(once, 1)[0]
			b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
			r := b.replays(replay.Config{})
			p := plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{IncludeDone: true, NewKey: true})
			b.exec(c.state)
			b.pruned(time.Millisecond)
			if gone := b.count(`SELECT count(*) FROM effect`) == 0; gone != c.ended {
				t.Errorf("the effect is gone: %t", gone)
			}
			if _, err := r.Start(t.Context(), replay.StartRequest{ID: p.ID, Actor: actor, Reason: why}); (err == nil) == c.ended {
				t.Errorf("it is run: %v", err)
			}
		})
	}
}

// Of two plans that would make an effect one makes it, also when the effect is past its
// horizon before the other one comes to it.
func TestAnEffectThatAPlanMadeIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	event := b.admit(repeatable, 1)[0]
	b.exec(`DELETE FROM effect`)
	b.exec(`DELETE FROM river_job`)
	r := b.replays(replay.Config{Judge: newRoute(b.routes[once])})
	scope, options := replay.Scope{IDs: []inbox.ID{event}}, replay.Options{NewRoutes: true}
	slow, quick := plan(t, r, scope, options), plan(t, r, scope, options)
	start(t, r, slow)
	start(t, r, quick)
	run(t, r, quick.ID)
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
	b.pruned(time.Millisecond)
	run(t, r, slow.ID)
	p, err := r.Status(t.Context(), slow.ID)
	if err != nil || p.Summary.Outcomes[replay.ItemExists] != 1 || b.count(`SELECT count(*) FROM effect WHERE state = 'pending'`) != 0 {
		t.Errorf("%+v, %v: the effect was made twice", p.Summary.Outcomes, err)
	}
	b.pruned(time.Millisecond)
	if n := b.count(`SELECT count(*) FROM effect`); n != 0 {
		t.Errorf("%d effects stay when the plans have ended", n)
	}
	// Whether the route has had an effect of the event nobody can tell any more.
	if p := plan(t, r, scope, options); p.Summary.ToDo != 0 || !slices.ContainsFunc(p.Summary.Groups, func(g replay.Group) bool {
		return g.LeftOut == replay.LeftOutEffectsPruned
	}) {
		t.Errorf("%+v", p.Summary)
	}
}

// A route that is younger than effects are kept can have had no effect that was pruned,
// however old the event; and an event that is younger has all of its.
func TestAnOldEventIsGivenToANewRoute(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"an old event":  `UPDATE inbox_event SET received_at = now() - interval '2 hours'`,
		"an old route":  `UPDATE route SET created_at = now() - interval '2 hours'`,
		"a dead letter": `WITH r AS (UPDATE route SET created_at = now() - interval '2 hours') UPDATE inbox_event SET admission = 'unusable', received_at = now() - interval '2 hours'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			event := b.admit(repeatable, 1)[0]
			b.exec(`DELETE FROM effect`)
			b.exec(change)
			b.pruned(time.Hour)
			r := b.replays(replay.Config{Judge: newRoute(b.routes[once])})
			if p := plan(t, r, replay.Scope{IDs: []inbox.ID{event}}, replay.Options{NewRoutes: true}); p.Summary.ToDo != 1 {
				t.Errorf("%+v", p.Summary)
			}
		})
	}
}
