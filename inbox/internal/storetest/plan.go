package storetest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
)

// Plan says of a statement how it must find its rows.
type Plan struct {
	SQL  string
	Want []string
}

// Plans tests that each statement finds its rows through the indexes meant for it, also while the tables are empty and
// never analysed, and reads no whole table.
func Plans(t *testing.T, plans map[string]Plan) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolGate, 1)
	inboxtest.Source(t, pool, "stripe")
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			plan := GenericPlan(t, pool, p.SQL)
			for _, want := range p.Want {
				if !strings.Contains(plan, want) {
					t.Errorf("the plan has no %q:\n%s", want, plan)
				}
			}
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("the plan reads a whole table:\n%s", plan)
			}
		})
	}
}

// NothingDue makes a history in which every effect is at rest: the planner's statistics from it are wrong as soon as a
// replay wakes the effects.
const NothingDue = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, reason)
SELECT gen_random_uuid(), gen_random_uuid(), 1, 1, n::text, 'dead', 'attempts_exhausted'
FROM generate_series(1, 3000) n`

// PlansByID tests that each statement looks up each effect by its id, regardless of the planner's statistics.
func PlansByID(t *testing.T, statements map[string]string) {
	t.Helper()
	for name, prepare := range map[string][]string{
		"never analysed":         nil,
		"analysed while empty":   {"VACUUM ANALYZE effect", NothingDue},
		"analysed while at rest": {NothingDue, "VACUUM ANALYZE effect"},
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
			for name, sql := range statements {
				plan := GenericPlan(t, pool, sql)
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

// narrowScan reports whether effects are looked up by their ids or, for later calls, by one event or one owner.
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

// effectScan finds how effects are read, and the line after that.
var effectScan = regexp.MustCompile(`(?:using (\w+)|Seq Scan) on effect\b[^\n]*\n([^\n]*)`)

// GenericPlan returns the plan of a statement for any arguments, if the pool's connections use generic plans.
func GenericPlan(t *testing.T, pool *pgxpool.Pool, sql string) string {
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

// Explain returns the plan of a statement with these arguments.
func Explain(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Crowd makes 20,000 events of source 1, each with an effect that is done, but for a hundred that are dead.
func Crowd(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	Exec(t, pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
			id_unsigned, suspected_replay)
		SELECT gen_random_uuid(), 1, 'many_' || n, 'x', sha256('x'), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 1, false, false FROM generate_series(1, 20000) n`)
	Exec(t, pool, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, finished_at)
		SELECT gen_random_uuid(), id, 1, 'done', 'key', 1, now() FROM inbox_event WHERE event_id LIKE 'many%'`)
	Exec(t, pool, `UPDATE effect SET state = 'dead', reason = 'status_4xx', finished_at = NULL WHERE event_id IN (SELECT id FROM inbox_event WHERE event_id LIKE 'many_1__')`)
	Exec(t, pool, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, key_digest)
		SELECT id, n, 1, 'initial', 'node', now(), now(), 'retry', substring(sha256(convert_to(CASE WHEN n = 1 THEN id::text ELSE 'one' END, 'UTF8')) FOR 16) FROM effect, generate_series(1, 2) n`)
	Exec(t, pool, `ANALYZE effect, inbox_event, effect_attempt`)
}
