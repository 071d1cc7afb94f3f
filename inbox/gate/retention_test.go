package gate_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// An event that is older than its source keeps keys is never taken for new: it is
// a dead letter, with its body and without effects. One whose key is known is a
// duplicate, however old.
func TestGateHoldsWhatIsOlderThanItsKeys(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	b.Source.Tombstone = 30 * storetest.Day
	deliver := func(id string, dated time.Duration) inbox.ItemReceipt {
		t.Helper()
		a := inboxtest.Admission(b.Source, id)
		if dated != 0 {
			a.Events[0].DatedAt = time.Now().Add(-dated)
		}
		receipt, err := b.Gate.Accept(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Items[0]
	}
	for _, c := range []struct {
		id     string
		dated  time.Duration
		beyond bool
	}{
		{"undated", 0, false}, {"young", storetest.Day, false}, {"just-young", 30*storetest.Day - time.Minute, false},
		{"just-old", 30*storetest.Day + time.Minute, true}, {"old", 400 * storetest.Day, true}, {"ahead", -2 * storetest.Day, false},
	} {
		got := deliver(c.id, c.dated)
		if got.Outcome != inbox.Recorded || got.BeyondRetention != c.beyond || (got.Effects == 0) != c.beyond {
			t.Errorf("%s: %+v, want beyond retention %t", c.id, got, c.beyond)
		}
		var admission string
		var bodies int
		b.Scan(t, `SELECT admission, (SELECT count(*) FROM inbox_body b WHERE b.id = e.body_id) FROM inbox_event e WHERE event_id = '`+c.id+`'`, &admission, &bodies)
		if want := map[bool]string{true: "beyond_retention", false: "ok"}[c.beyond]; admission != want || bodies != 1 {
			t.Errorf("%s is %s with %d bodies, want %s with its body", c.id, admission, bodies, want)
		}
		if again := deliver(c.id, c.dated); again.Outcome != inbox.Duplicate || again.BeyondRetention != c.beyond {
			t.Errorf("%s again: %+v, want a duplicate", c.id, again)
		}
	}
	if known := deliver("young", 400*storetest.Day); known.Outcome != inbox.Duplicate || known.BeyondRetention {
		t.Errorf("a known key that claims to be old: %+v, want a duplicate of the first", known)
	}
	b.Source.Tombstone = 0
	if got := deliver("unbounded", 400*storetest.Day); got.BeyondRetention {
		t.Error("a source without a horizon holds nothing")
	}
}
