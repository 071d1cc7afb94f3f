package prune_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/session"
)

// Every statement of prune and erase finds its rows through an index, also on
// tables that are empty and were never analysed.
func TestPrunePlans(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	inboxtest.Source(t, pool, "stripe")
	if _, err := pool.Exec(t.Context(), prune.PrepareSession); err != nil {
		t.Fatal(err)
	}
	partition := "inbox_body_default" + time.Now().UTC().Format("_20060102")
	through := map[string][]string{
		"lock events":    {"inbox_event_pkey", "effect_event_route_item_key", "replay_item_event_idx", "conflict_payload_key"},
		"delete events":  {"inbox_event_pkey", "effect_event_route_item_key", "operation_result_pkey", "conflict_payload_key", "event_label_pkey"},
		"minutes":        {"stat_minute_pkey"},
		"hours":          {"stat_hour_pkey"},
		"erase labels":   {"event_label_pkey"},
		"plain labels":   {"event_label_pkey"},
		"hash labels":    {"event_label_value_idx"},
		"lock effects":   {"effect_pkey", "effect_duplicate_of_idx", "effect_key_effect_idx", "replay_item_effect_idx", "stream_key"},
		"delete effects": {"effect_pkey", "effect_attempt_pkey"},
		"lock keys":      {"effect_key_expires_idx", "effect_key_pkey", "effect_pkey"},
		"delete keys":    {"effect_key_pkey"},
		"under way":      {"effect_due_idx"},
		"oldest at rest": {"effect_rest_idx", "effect_held_idx"},
		"lock streams":   {"stream_pkey", "effect_sequence_idx"},
		"at rest":        {"effect_rest_idx"},
		"held":           {"effect_held_idx"},
		"conflicts":      {"conflict_source_idx", "conflict_pkey"},
		"refusals":       {"refusal_source_idx", "refusal_pkey"},
		"replay items":   {"replay_pkey", "replay_item_pkey", "replay_outcome_pkey"},
		"replays":        {"replay_pkey"},
		"audits":         {"audit_pkey"},
		"agent sessions": {"agent_session_expiry_idx", "agent_session_pkey"},
		"logins":         {"console_login_expiry_idx", "console_login_pkey"},
		"login links":    {"login_link_expiry_idx", "login_link_pkey"},
		"API requests":   {"api_request_expiry_idx", "api_request_pkey"},
		"keep bodies":    {"inbox_event_pkey", partition + "_pkey"},
		"lock kept":      {"inbox_body_kept_pkey"},
		"delete kept":    {"inbox_body_kept_pkey", "inbox_event_pkey"},
		"backlog":        {"inbox_event_pkey"},
		"find erased":    {"inbox_event_key"},
		"lock siblings":  {"inbox_event_pkey"},
		"erase diffs":    {"replay_item_event_idx"},

		"erase conflicts": {"conflict_payload_key"},
	}
	for name := range through {
		if prune.PruneStatements[name] == "" {
			t.Errorf("there is no statement %q", name)
		}
	}
	parameter := regexp.MustCompile(`\$([0-9]+)`)
	for name, sql := range prune.PruneStatements {
		if strings.Contains(sql, "%[1]s") {
			sql = fmt.Sprintf(sql, partition)
		}
		count := 0
		for _, match := range parameter.FindAllStringSubmatch(sql, -1) {
			var n int
			if _, err := fmt.Sscan(match[1], &n); err != nil {
				t.Fatal(err)
			}
			count = max(count, n)
		}
		prepared := "p_" + strings.ReplaceAll(name, " ", "_")
		execute := "EXPLAIN EXECUTE " + prepared
		if count > 0 {
			execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", count), ", ") + ")"
		}
		if _, err := pool.Exec(t.Context(), "PREPARE "+prepared+" AS "+sql); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows, err := pool.Query(t.Context(), execute)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan := strings.Join(lines, "\n")
		for _, index := range through[name] {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: the plan does not go through %s:\n%s", name, index, plan)
			}
		}
		if at := regexp.MustCompile(`Seq Scan on (\w+)`).FindStringSubmatch(plan); at != nil && at[1] != "source" || strings.Contains(plan, "hashed SubPlan") {
			t.Errorf("%s: the plan reads all of a table:\n%s", name, plan)
		}
	}
}
