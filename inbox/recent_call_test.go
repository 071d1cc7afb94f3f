package inbox_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// claim is a call of the credential under the key.
func (o *operated) claim(t *testing.T, credential, key string, insist bool) (inbox.ID, bool) {
	t.Helper()
	first, suspected, err := o.ops.ClaimCall(t.Context(), &inbox.RecentCall{
		Source: o.source, Hash: inbox.RecentCallHash(credential, "charge", []byte("hash")), EventID: credential + ":charge:" + key, Within: time.Hour, Insist: insist,
	})
	if err != nil {
		t.Error(err)
	}
	return first, suspected
}

// Of the same calls under other keys that come at once, one is not suspected.
func TestOneOfTheSameCallsIsTheFirst(t *testing.T) {
	t.Parallel()
	o := newOperated(t, 1)
	var all sync.WaitGroup
	var unsuspected atomic.Int32
	for i := range 30 {
		all.Go(func() {
			if _, suspected := o.claim(t, "agent", fmt.Sprint(i), false); !suspected {
				unsuspected.Add(1)
			}
		})
	}
	all.Wait()
	if n := unsuspected.Load(); n != 1 {
		t.Errorf("%d of 30 calls came first", n)
	}
}

// A call is suspected of what its own credential did under another key, as long as the window lasts,
// and not if it insists.
func TestRecentCallsAreRemembered(t *testing.T) {
	t.Parallel()
	o := newOperated(t, 1)
	if _, suspected := o.claim(t, "agent", "one", false); suspected {
		t.Error("the first is suspected")
	}
	if _, suspected := o.claim(t, "agent", "one", false); suspected {
		t.Error("the same key again is suspected")
	}
	if first, suspected := o.claim(t, "agent", "two", false); !suspected || !first.IsZero() {
		t.Errorf("another key: %t, %s; the first is not recorded yet", suspected, first)
	}
	id := o.event(t, "agent:charge:one", "done")
	if first, suspected := o.claim(t, "agent", "two", false); !suspected || first != id {
		t.Errorf("another key: %t, %s; want %s", suspected, first, id)
	}
	if _, suspected := o.claim(t, "clerk", "two", false); suspected {
		t.Error("another credential is suspected")
	}
	if _, suspected := o.claim(t, "agent", "three", true); suspected {
		t.Error("who insists is suspected")
	}
	if _, suspected := o.claim(t, "agent", "two", false); !suspected {
		t.Error("nobody is suspected after one who insisted")
	}
	storetest.Exec(t, o.pool, `UPDATE recent_call SET expires_at = now() - interval '1 second'`)
	if _, suspected := o.claim(t, "agent", "two", false); suspected {
		t.Error("a call is suspected after the window")
	}
	var rows int
	if err := o.pool.QueryRow(t.Context(), `SELECT count(*) FROM recent_call`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; what has expired is removed by later calls", rows, err)
	}
}

// No part of a call's hash runs into the next.
func TestRecentCallHashKeepsPartsApart(t *testing.T) {
	t.Parallel()
	if inbox.RecentCallHash("ab", "c", nil) == inbox.RecentCallHash("a", "bc", nil) {
		t.Error("two calls have one hash")
	}
}
