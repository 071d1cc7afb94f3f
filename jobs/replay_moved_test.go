package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
)

// An effect that was moved to another route keeps its key. A plan of new routes must not
// make a second effect under that key when the route is back: the target would be sent it twice.
func TestAMovedEffectIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 3)
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
	says := judgeFunc(func(*replay.RecordedEvent) []replay.Judgement {
		return []replay.Judgement{{RouteID: b.routes[once], Verdict: replay.VerdictNewRoute}}
	})
	r := b.replays(replay.Config{Judge: says})
	ofOnce := replay.Scope{DeadFilter: read.DeadFilter{Source: "shop", Route: once}}
	first := plan(t, r, ofOnce, replay.Options{NewRoutes: true})
	start(t, r, first)
	run(t, r, first.ID)
	if n := b.count(`SELECT count(*) FROM effect WHERE route_id = $1`, b.routes[once]); n != 3 {
		t.Fatalf("%d effects were made, want 3", n)
	}
	// The route goes, and what waits for it is moved, as `routes move` does it. One of them is
	// then replayed under a new key, and one was sent under a key by recipe.
	b.exec(`UPDATE effect SET route_id = $1, version = version + 1, fresh_trigger = 'manual' WHERE route_id = $2`, b.routes[within], b.routes[once])
	b.exec(`UPDATE effect SET idempotency_key = idempotency_key || '~v3' WHERE route_id = $1 AND event_id = $2`, b.routes[within], ids[0])
	b.exec(`UPDATE effect SET event_key = idempotency_key, idempotency_key = 'og2_of a recipe' WHERE route_id = $1 AND event_id = $2`, b.routes[within], ids[1])
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
	second := plan(t, r, ofOnce, replay.Options{NewRoutes: true})
	start(t, r, second)
	run(t, r, second.ID)
	if n := b.count(`SELECT count(*) FROM effect WHERE route_id = $1`, b.routes[once]); n != 0 {
		t.Errorf("%d effects were made under the keys of those that had moved", n)
	}
	if second, err := r.Status(t.Context(), second.ID); err != nil || second.Summary.Outcomes[replay.ItemExists] != 3 {
		t.Errorf("%+v, %v; want 3 items that exist", second.Summary, err)
	}
}
