package read_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/read"
)

// An effect that waits says for what in its list and on its page, in the same words.
func TestWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e    read.EffectRow
		want string
	}{
		{read.EffectRow{State: "pending"}, "Its first attempt has not begun yet."},
		{read.EffectRow{State: "pending", Reason: "paused", Target: "psp"}, "It waits until its route or its target psp is resumed."},
		{read.EffectRow{State: "retry", Reason: "target_open", Target: "psp", Attempts: 3, Code: "500"}, "Target psp fails, so no attempt is made until its next try. The last answer was 500."},
		{read.EffectRow{State: "retry", Reason: "status_5xx", Attempts: 1, Code: "500"}, "It waits for another attempt. The last answer was 500."},
		{read.EffectRow{State: "retry", Reason: "connect_failed", Attempts: 1}, "It waits for another attempt. The last attempt failed: connect failed."},
		{read.EffectRow{State: "retry", Reason: "resent", Attempts: 1}, "It is sent again: its next attempt has not begun yet."},
		{read.EffectRow{State: "held", Reason: "sequence_gap"}, "It waits for an earlier effect of its stream."},
		{read.EffectRow{State: "held", Reason: "sequence_key_missing"}, "It waits until a person decides about its order."},
		{read.EffectRow{State: "claimed"}, "An attempt is under way."},
		{read.EffectRow{State: "done"}, ""},
		{read.EffectRow{State: "dead", Reason: "attempts_exhausted", Code: "500"}, ""},
	} {
		if got := read.WaitsOf(&c.e); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.e.State, c.e.Reason, got, c.want)
		}
	}
}
