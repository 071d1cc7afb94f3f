package inbox_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/session"
)

// nothingDue is a history of which everything is at rest: what the planner has
// learnt from it is wrong as soon as a replay sets it going.
const nothingDue = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, reason)
SELECT gen_random_uuid(), gen_random_uuid(), 1, 1, n::text, 'dead', 'attempts_exhausted'
FROM generate_series(1, 3000) n`

// Whatever the planner was told last, a statement that is given effects looks each of
// them up by its id. The claim once walked all that was due for each of them, because
// nothing had been when the table was analysed.
func TestWorkPlans(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string][]string{
		"never analysed":         nil,
		"analysed while empty":   {"VACUUM ANALYZE effect", nothingDue},
		"analysed while at rest": {nothingDue, "VACUUM ANALYZE effect"},
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
			for name, sql := range inbox.WorkStatements {
				plan := genericPlan(t, pool, sql)
				for _, scan := range effectScan.FindAllStringSubmatch(plan, -1) {
					if !narrowScan(scan[1], scan[2]) {
						t.Errorf("%s: effects are not looked up by their ids:\n%s", name, plan)
						break
					}
				}
			}
		})
	}
}

// narrowScan says that effects are looked up by their ids or, where later calls are
// looked for, by one event or one owner.
func narrowScan(index, condition string) bool {
	for by, want := range map[string]string{
		"effect_pkey": "Index Cond: (id = ", "effect_event_route_item_key": "Index Cond: (event_id = ", "effect_duplicate_of_idx": "Index Cond: (duplicate_of = ",
	} {
		if index == by && strings.Contains(strings.Replace(condition, "((", "(", 1), want) {
			return true
		}
	}
	return false
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
			plan := genericPlan(t, pool, inbox.ReadChunk)
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
			plan := genericPlan(t, pool, inbox.ReadDecisions)
			if !strings.Contains(plan, "audit_object_idx") || strings.Contains(plan, "Seq Scan on audit") {
				t.Errorf("the audit is not looked up by its objects:\n%s", plan)
			}
		})
	}
}

// effectScan finds how effects are read, and the line after that.
var effectScan = regexp.MustCompile(`(?:using (\w+)|Seq Scan) on effect\b[^\n]*\n([^\n]*)`)

// genericPlan is how a statement is carried out whatever it is given, where the
// pool's connections plan that way.
func genericPlan(t *testing.T, pool *pgxpool.Pool, sql string) string {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	described, err := conn.Conn().Prepare(t.Context(), "planned", sql)
	if err != nil {
		t.Fatalf("%v:\n%s", err, sql)
	}
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(described.ParamOIDs)), ", ")
	execute := "EXPLAIN EXECUTE planned"
	if nulls != "" {
		execute += "(" + nulls + ")"
	}
	rows, err := conn.Query(t.Context(), execute)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Conn().Deallocate(t.Context(), "planned"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
