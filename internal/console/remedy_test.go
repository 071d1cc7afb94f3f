package console_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/console"
)

// Every reason for which an attempt fails is told in words, with what is to be changed.
func TestEveryReasonHasARemedy(t *testing.T) {
	t.Parallel()
	all := append(reasons.All(), string(reasons.Panic), string(reasons.Route), string(reasons.BodyGone), string(reasons.Deadline), string(reasons.KeyWindow))
	for _, reason := range all {
		why, mend, known := console.Remedy(reason, "shop", "422")
		if !known || why == "" || mend == "" || strings.Contains(why+mend, "TARGET") || strings.Contains(why+mend, "CODE") {
			t.Errorf("%s: %q, %q", reason, why, mend)
		}
	}
	if _, mend, _ := console.Remedy(reasons.Address, "shop", ""); !strings.Contains(mend, "targets.shop.allow") {
		t.Errorf("the remedy of an address that is refused does not name the key: %s", mend)
	}
}
