package replay_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/session"
)

// TestReplayPlans: every statement that runs for each item finds its rows through the index meant for it.
func TestReplayPlans(t *testing.T) {
	t.Parallel()
	storetest.Plans(t, map[string]storetest.Plan{
		"chunk": {SQL: replay.ReadChunk, Want: []string{"Index Cond: ((replay_id = $1) AND (\"position\" > $3))"}},
	})
	storetest.PlansByID(t, map[string]string{"mark fresh": replay.MarkFresh})
}

// TestScopePlan: with many settled effects beside them, the effects that a replay takes are found through the index that
// holds nothing else.
func TestScopePlan(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	inboxtest.Source(t, pool, "stripe")
	storetest.Crowd(t, pool)
	sql, args := replay.ScopeEffects(&replay.Scope{All: true}, replay.Options{}, nil)
	plan := storetest.Explain(t, pool, sql, args...)
	if !strings.Contains(plan, "effect_rest_idx") || strings.Contains(plan, "Seq Scan on effect") || strings.Contains(plan, "Seq Scan on inbox_event") {
		t.Errorf("effects are not found through effect_rest_idx alone:\n%s", plan)
	}
}

// planned are the items of two replays.
const planned = `
INSERT INTO replay_item (replay_id, position, effect_id, event_id, effect_version, route_id, action)
SELECT r.id, n, gen_random_uuid(), gen_random_uuid(), 1, 1, 'replay'
FROM (VALUES ('00000000-0000-7000-8000-000000000001'::uuid), ('00000000-0000-7000-8000-000000000002')) AS r (id),
    generate_series(1, 3000) n`

// smallPlans are the plans of single items that came before.
const smallPlans = `
INSERT INTO replay_item (replay_id, position, effect_id, event_id, effect_version, route_id, action)
SELECT gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(), 1, 1, 'replay'
FROM generate_series(1, 3000) n`

// A step reads as many items as it takes. It once read all that were left, to sort them:
// 50 ms where 50 items were wanted of 40,000.
func TestReplayStepPlan(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string][]string{
		"never analysed":       {planned},
		"analysed while empty": {"VACUUM ANALYZE replay_item", planned},
		"analysed":             {planned, "VACUUM ANALYZE replay_item"},
		"analysed while small": {smallPlans, "VACUUM ANALYZE replay_item", planned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolWork, 1)
			for _, sql := range prepare {
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			plan := storetest.GenericPlan(t, pool, replay.ReadChunk)
			if !strings.Contains(plan, "Index Scan using replay_item_pkey") || strings.Contains(plan, "Sort") {
				t.Errorf("items are not read in their order:\n%s", plan)
			}
		})
	}
}

// audited is a year of other people's decisions.
const audited = `
INSERT INTO audit (id, at, actor, action, object, after)
SELECT gen_random_uuid(), now(), 'ann', 'effect.discard', 'effect/' || gen_random_uuid(), '{"revision": 1}'
FROM generate_series(1, 3000) n`

// Who decided about an item is looked up by the object, however much there is in the audit.
func TestDecisionsPlan(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string][]string{
		"never analysed": {audited}, "analysed while empty": {"VACUUM ANALYZE audit", audited}, "analysed": {audited, "VACUUM ANALYZE audit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolWork, 1)
			for _, sql := range prepare {
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			plan := storetest.GenericPlan(t, pool, replay.ReadDecisions)
			if !strings.Contains(plan, "audit_object_idx") || strings.Contains(plan, "Seq Scan on audit") {
				t.Errorf("the audit is not looked up by its objects:\n%s", plan)
			}
		})
	}
}

// The effects and events of a label are found through its index, and theirs by their ids, whatever the planner knows of the tables.
func TestScopePlanOfALabel(t *testing.T) {
	t.Parallel()
	for name, analysed := range map[string]bool{"analysed": true, "never analysed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := inboxtest.Pool(t)
			inboxtest.Source(t, pool, "stripe")
			storetest.Crowd(t, pool)
			storetest.Exec(t, pool, `INSERT INTO event_label (event_id, name, value)
				SELECT e.id, k.name, convert_to(k.value, 'UTF8') FROM inbox_event e, LATERAL (VALUES ('order', e.event_id), ('all', 'x')) k (name, value)`)
			storetest.Exec(t, pool, `INSERT INTO event_label_batch (id, event_id, name, value) SELECT id, ARRAY[id], '{order}', '{waits}' FROM inbox_event LIMIT 200`)
			if analysed {
				storetest.Exec(t, pool, `ANALYZE event_label, event_label_batch`)
			}
			for _, l := range []inbox.Label{{Name: "order", Value: "many_7"}, {Name: "all", Value: "x"}, {Name: "no", Value: "x"}} {
				search, err := read.FindLabel(t.Context(), pool, nil, l)
				if err != nil {
					t.Fatal(err)
				}
				scope := replay.Scope{Label: &read.EventLabel{Name: l.Name, Value: l.Value}}
				for what, find := range map[string]func(*replay.Scope, replay.Options, *read.LabelSearch) (string, []any){"effects": replay.ScopeEffects, "events": replay.ScopeEvents} {
					for _, o := range []replay.Options{{}, {IncludeDone: true, NewKey: true, NewRoutes: true}} {
						sql, args := find(&scope, o, &search)
						plan := storetest.Explain(t, pool, sql, args...)
						if !strings.Contains(plan, "event_label_value_idx") {
							t.Errorf("%s of %v: the label is not found by its index:\n%s", what, l, plan)
						}
						for _, bad := range []string{"Seq Scan on effect", "Seq Scan on inbox_event", "Seq Scan on event_label ", "effect_rest_idx"} {
							if strings.Contains(plan, bad) {
								t.Errorf("%s of %v: %s:\n%s", what, l, bad, plan)
							}
						}
					}
				}
			}
		})
	}
}
