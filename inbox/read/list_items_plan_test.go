package read_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

// TestPlansOfItems: what reads the items of lists finds its rows by their keys.
func TestPlansOfItems(t *testing.T) {
	t.Parallel()
	plans := map[string]storetest.Plan{}
	for name, want := range map[string][]string{
		"item states": {"effect_event_route_item_key", "effect_pkey"}, "list total": {"effect_pkey"}, "list place": {"effect_pkey", "effect_event_route_item_key"},
	} {
		plans[name] = storetest.Plan{SQL: read.ListItemStatements[name], Want: want}
	}
	if len(plans) != len(read.ListItemStatements) {
		t.Errorf("%d of %d statements have a plan", len(plans), len(read.ListItemStatements))
	}
	storetest.Plans(t, plans)
}
