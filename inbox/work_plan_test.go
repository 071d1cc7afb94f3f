package inbox_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// Whatever the planner was told last, a statement that is given effects looks each of
// them up by its id. The claim once walked all that was due for each of them, because
// nothing had been when the table was analysed.
func TestWorkPlans(t *testing.T) {
	t.Parallel()
	storetest.PlansByID(t, inbox.WorkStatements)
}

// TestPlansInOrder: every hot statement about effects and streams finds its rows through the index meant for it.
func TestPlansInOrder(t *testing.T) {
	t.Parallel()
	storetest.Plans(t, map[string]storetest.Plan{
		"lock_streams": {SQL: inbox.LockStreams, Want: []string{"Index Scan using stream_key"}},
		"lock_asked":   {SQL: inbox.LockAsked, Want: []string{"effect_pkey"}},
		"order":        {SQL: inbox.ReadOrder, Want: []string{"stream_key", "effect_sequence_idx", "effect_open_idx", "effect_pkey", "Index Scan Backward using effect_open_idx"}},
		"ahead":        {SQL: inbox.ReadAhead, Want: []string{"effect_sequence_idx", "effect_pkey", "inbox_event_pkey"}},
		"go_on":        {SQL: inbox.GoOnInStreams, Want: []string{"stream_pkey", "effect_open_idx", "effect_pkey", "inbox_event_pkey"}},
		"settle":       {SQL: inbox.SettleInStreams, Want: []string{"stream_key", "effect_pkey"}},
		"move":         {SQL: inbox.MoveEffects, Want: []string{"Index Scan using effect_pkey"}},
		"below":        {SQL: inbox.SupersedeBelow, Want: []string{"effect_open_idx"}},
		"forget":       {SQL: inbox.ForgetIndeterminate, Want: []string{"operation_result_pkey", "effect_duplicate_of_idx"}},
		"results":      {SQL: row.ForgetResults, Want: []string{"operation_result_pkey", "effect_duplicate_of_idx"}},
		"lock_events":  {SQL: inbox.LockEffectEvents, Want: []string{"inbox_event_pkey", "effect_duplicate_of_idx"}},
		"pull back":    {SQL: inbox.PullBackSQL, Want: []string{"Index Scan Backward using effect_due_idx", "effect_attempt_pkey", "river_job_pkey", "effect_pkey"}},
		"gaps ahead":   {SQL: inbox.PullBackGapsSQL, Want: []string{"stream_gap_idx"}},
		"parents":      {SQL: inbox.ReadParentEffects, Want: []string{"operation_follow_pkey", "effect_event_route_item_key"}},
		"held":         {SQL: inbox.PageHeld, Want: []string{"effect_held_idx", "stream_key"}},
	})
}
