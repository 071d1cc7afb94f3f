package catalog_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers/catalog"
)

// TestTombstonesOutliveTheWindows requires that the id of an event is kept three times as long as its
// sender may deliver it again, by itself or because a person asks for it. A late resend is then a
// duplicate, not a new event.
func TestTombstonesOutliveTheWindows(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range loaded {
		w := &p.Spec().Windows
		if longest := max(w.Retry.For, w.Resend.For, w.List.For); w.Floor < 3*longest {
			t.Errorf("%s: ids are kept for %v, and the sender delivers again for %v", name, time.Duration(w.Floor), time.Duration(longest))
		}
	}
	day := 24 * time.Hour
	for name, want := range map[string]struct{ resend, list time.Duration }{
		"stripe": {30 * day, 30 * day}, "paddle": {90 * day, 90 * day}, "checkout-com": {90 * day, 30 * day}, "square": {0, 28 * day},
		"paypal": {30 * day, 30 * day}, "recurly": {15 * day, 0}, "tally": {30 * day, 0}, "paymongo": {30 * day, 0}, "paddle-classic": {0, 90 * day},
		"chargebee": {90 * day, 0}, "svix": {90 * day, 0}, "x": {5 * day, 0}, "heroku": {0, 7 * day},
	} {
		w := &loaded[name].Spec().Windows
		if time.Duration(w.Resend.For) != want.resend || time.Duration(w.List.For) != want.list {
			t.Errorf("%s: resends for %v and lists for %v, want %+v", name, time.Duration(w.Resend.For), time.Duration(w.List.For), want)
		}
	}
}
