package conflict_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/gate/conflict"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	storetest.Plans(t, map[string]storetest.Plan{
		"first": {SQL: conflict.ReadFirst, Want: []string{"inbox_event_pkey", "inbox_body_kept_pkey"}},
	})
}
