package registry_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

// What waits for a source that is gone for good can be ended by a person, in every state,
// though no process knows its route. Nothing of it can be set going again.
func TestWhatARemovedSourceHoldsCanBeEnded(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	row := register(t, b.Pool, src("a"))["a"]
	for _, id := range []string{"e1", "e2", "e3", "e4", "e5", "e6"} {
		accept(t, b, served("a", row), id)
	}
	storetest.Exec(t, b.Pool, `
WITH numbered AS (SELECT x.id, row_number() OVER (ORDER BY x.id) AS n FROM effect x)
UPDATE effect e SET
    state = (ARRAY['pending', 'retry', 'held', 'dead', 'indeterminate', 'dead'])[n],
    next_at = CASE WHEN n <= 2 THEN now() END, reason = CASE WHEN n > 3 THEN 'status_503' END,
    sequence_key_hash = CASE WHEN n IN (3, 6) THEN sha256('k') END, sequence_number = CASE n WHEN 3 THEN 2 WHEN 6 THEN 1 END
FROM numbered d WHERE d.id = e.id`)
	storetest.Exec(t, b.Pool, `
INSERT INTO stream (route_id, key_hash, applied, blocked_by)
SELECT route_id, sequence_key_hash, 0, id FROM effect WHERE sequence_number = 1`)
	register(t, b.Pool, separate("b"))
	ids := column[inbox.ID](t, b.Pool, `SELECT id FROM effect ORDER BY id`)
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: b.Pool, Enqueuer: storetest.Queue(), Node: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	resolve := decide.Resolve{Effect: ids[4], As: decide.ResolveResend, Actor: "ann", Reason: "r"}
	if err := decide.New(store).Resolve(t.Context(), resolve); !errors.Is(err, inbox.ErrRouteGone) {
		t.Errorf("resending to a route that is gone gave %v, want ErrRouteGone", err)
	}
	resolve.As = decide.ResolveDone
	if err := decide.New(store).Resolve(t.Context(), resolve); err != nil {
		t.Error(err)
	}
	pass := decide.PassStream{Stream: column[int64](t, b.Pool, `SELECT id FROM stream`)[0], As: decide.StreamSkip, Blocker: ids[5], Actor: "ann", Reason: "r"}
	if err := decide.New(store).PassStream(t.Context(), pass); err != nil {
		t.Error(err)
	}
	if out, err := decide.New(store).Discard(t.Context(), decide.Discard{Filter: read.DeadFilter{Source: "a", Route: "all"}, Max: 10, Actor: "ann", Reason: "r"}); err != nil || out.Discarded != 1 {
		t.Errorf("discarding what is dead gave %+v, %v, want one", out, err)
	}
	clearing := decide.ClearRoute{Source: "a", Route: "all", To: "other", Actor: "ann", Reason: "r"}
	if _, err := decide.New(store).ClearRoute(t.Context(), clearing); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("moving to a route that the source does not have gave %v, want ErrNotFound", err)
	}
	clearing.To = ""
	if out, err := decide.New(store).ClearRoute(t.Context(), clearing); err != nil || out.Cleared != 3 {
		t.Errorf("discarding what waits gave %+v, %v, want three", out, err)
	}
	if open := column[string](t, b.Pool, `SELECT state || ' ' || coalesce(reason, '') FROM effect WHERE state NOT IN ('done', 'skipped')`); len(open) > 0 {
		t.Errorf("%v are left", open)
	}
}
