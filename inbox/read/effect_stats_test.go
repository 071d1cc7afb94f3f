package read_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

func TestReadEffectStats(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 2)
	for i, states := range [][]string{{"pending", "dead"}, {"retry", "dead"}, {"done", "indeterminate"}, {"indeterminate"}, {"claimed"}} {
		if states[0] != "claimed" {
			o.Event(t, fmt.Sprint("agent:charge:", i), states...)
		}
	}
	old := inbox.NewID(time.Now().Add(-time.Hour))
	storetest.Exec(t, o.Pool, `UPDATE effect SET id = $1 WHERE state = 'retry'`, old)
	stats, err := read.CountEffects(t.Context(), o.Pool, append(o.Routes, 999))
	if err != nil {
		t.Fatal(err)
	}
	first, second := stats[o.Routes[0]], stats[o.Routes[1]]
	if first.Pending != 2 || first.Dead != 0 || first.Indeterminate != 1 || first.OldestPending < time.Hour || first.OldestPending > 2*time.Hour {
		t.Errorf("first route: %+v", first)
	}
	if second != (read.EffectStats{Dead: 2, Indeterminate: 1}) {
		t.Errorf("second route: %+v", second)
	}
	if none, ok := stats[999]; !ok || none != (read.EffectStats{}) {
		t.Errorf("a route without effects: %+v, %t", none, ok)
	}
}

// A gauge is read every few seconds: whatever the planner was told last, it walks a partial index and
// no table.
func TestEffectStatsPlans(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string][]string{
		"never analysed":         nil,
		"analysed while empty":   {"VACUUM ANALYZE effect", storetest.NothingDue},
		"analysed while at rest": {storetest.NothingDue, "VACUUM ANALYZE effect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
			for _, sql := range prepare {
				storetest.Exec(t, pool, sql)
			}
			for sql, args := range read.EffectStatsStatements {
				var lines []string
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), read.ByIndex); err != nil {
						return err
					}
					rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
					if err != nil {
						return err
					}
					lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				plan := strings.Join(lines, "\n")
				scans := regexp.MustCompile(`Scan.* on effect`).FindAllString(plan, -1)
				narrow := regexp.MustCompile(`Index (?:Only )?Scan using (?:effect_due_idx|effect_rest_idx|effect_indeterminate_idx) on effect`).FindAllString(plan, -1)
				if len(scans) == 0 || len(scans) != len(narrow) || strings.Contains(plan, "Incremental Sort") {
					t.Errorf("effects are not read through their partial indexes:\n%s", plan)
				}
			}
		})
	}
}
