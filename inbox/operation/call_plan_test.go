package operation_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/operation"
)

// TestPlansOfCalls: what sums up lists that effects became, and recognises a call that came before, finds its rows by their keys.
func TestPlansOfCalls(t *testing.T) {
	t.Parallel()
	plans := map[string]storetest.Plan{}
	for name, want := range map[string][]string{
		"list states": {"effect_event_route_item_key", "route_pkey"}, "item failures": {"effect_event_route_item_key"},
		"recent call": {"recent_call_pkey", "inbox_event_key"}, "followed call": {"inbox_event_pkey", "effect_event_route_item_key", "operation_follow_once"},
	} {
		plans[name] = storetest.Plan{SQL: operation.CallStatements[name], Want: want}
	}
	if len(plans) != len(operation.CallStatements) {
		t.Errorf("%d of %d statements have a plan", len(plans), len(operation.CallStatements))
	}
	storetest.Plans(t, plans)
}
