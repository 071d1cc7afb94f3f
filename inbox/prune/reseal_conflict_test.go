package prune_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// A payload that conflicts is kept once and admitted as one event, however its hash was stored when.
func TestAConflictStaysOneWhenItsHashGetsAKey(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	payload := func(pin int) *inbox.Admission {
		return inboxtest.AdmissionOf(in.Source, "evt", fmt.Sprintf(`{"pin":%d}`, pin))
	}
	kept := func(pins ...int) (id inbox.ID) {
		t.Helper()
		if n := in.Count(t, `SELECT count(*) FROM conflict`); n != len(pins) {
			t.Fatalf("%d payloads are kept, want %d", n, len(pins))
		}
		if err := in.Pool.QueryRow(t.Context(), `SELECT id FROM conflict ORDER BY first_seen_at DESC LIMIT 1`).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	admitted := func(conflict inbox.ID, outcome inbox.Outcome) inbox.ID {
		t.Helper()
		got, err := in.admit(t, true, conflict)
		if err != nil || got.Outcome != outcome {
			t.Fatalf("admitted %+v: %v, want %s", got, err, outcome)
		}
		return got.Event
	}
	in.want(t, false, payload(1), inbox.Recorded, inbox.ID{})
	in.want(t, false, payload(2), inbox.Conflict, inbox.ID{})
	in.want(t, true, payload(2), inbox.Conflict, inbox.ID{})
	conflict := kept(2)
	if n := in.Count(t, `SELECT deliveries FROM conflict`); n != 2 {
		t.Errorf("the payload has %d deliveries, want 2", n)
	}
	event := admitted(conflict, inbox.Recorded)
	in.reseal(t)
	in.want(t, true, payload(2), inbox.Conflict, inbox.ID{})
	if same := kept(2); admitted(same, inbox.Duplicate) != event {
		t.Error("after the reseal the payload is admitted as another event")
	}
	// Once its row is pruned, the payload is kept anew, and only its event says that it was admitted.
	in.Exec(t, `DELETE FROM conflict`)
	in.want(t, true, payload(2), inbox.Conflict, inbox.ID{})
	if admitted(kept(2), inbox.Duplicate) != event {
		t.Error("a payload that is kept anew is admitted as another event")
	}

	// The process without the keyring keeps it a second time, and may not admit it. The reseal makes one of the two.
	in.want(t, false, payload(2), inbox.Conflict, inbox.ID{})
	if got, err := in.admit(t, false, kept(2, 2)); err == nil {
		t.Errorf("a process without the keyring admitted %+v", got)
	}
	if admitted(kept(2, 2), inbox.Duplicate) != event {
		t.Error("the second row of a payload is admitted as another event")
	}
	in.reseal(t)
	if admitted(kept(2), inbox.Duplicate) != event {
		t.Error("the row that the reseal left is admitted as another event")
	}
	if n := in.Count(t, `SELECT deliveries FROM conflict`); n != 2 {
		t.Errorf("the row that the reseal left has %d deliveries, want 2", n)
	}
	in.want(t, false, payload(1), inbox.Conflict, inbox.ID{})
	if got, err := in.admit(t, true, kept(2, 1)); err == nil {
		t.Errorf("the event's own payload, which is no conflict, was admitted as %+v", got)
	}
}

// holdConflict locks the only conflict. waits returns when so many sessions wait for the lock, directly or for one that does.
func (in *introduction) holdConflict(t *testing.T) (waits func(sessions int), release func()) {
	t.Helper()
	tx, err := in.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	var holder int32
	if err := tx.QueryRow(t.Context(), `SELECT pg_backend_pid() FROM conflict FOR UPDATE`).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	waits = func(sessions int) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for in.Count(t, `WITH RECURSIVE w AS (SELECT $1::int AS pid
			UNION SELECT a.pid FROM pg_stat_activity a JOIN w ON w.pid = ANY (pg_blocking_pids(a.pid))) SELECT count(*) - 1 FROM w`, holder) < sessions {
			if time.Now().After(deadline) {
				t.Fatalf("%d sessions never waited", sessions)
			}
		}
	}
	release = func() {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return waits, release
}

// Two people admit one conflict at the same moment, one before and one after its hash gets a key. The id of the admitted event
// is made of the hash, so without the lock on the conflict there would be two events.
func TestAConflictIsAdmittedTwiceWhileItsHashGetsAKey(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	var conflict inbox.ID
	in.want(t, false, inboxtest.AdmissionOf(in.Source, "evt", `{"pin":1}`), inbox.Recorded, inbox.ID{})
	in.want(t, false, inboxtest.AdmissionOf(in.Source, "evt", `{"pin":2}`), inbox.Conflict, inbox.ID{})
	if err := in.Pool.QueryRow(t.Context(), `SELECT id FROM conflict`).Scan(&conflict); err != nil {
		t.Fatal(err)
	}
	waits, release := in.holdConflict(t)
	var all sync.WaitGroup
	defer all.Wait()
	var admitted [2]decide.AdmittedConflict
	admit := func(i int) {
		all.Go(func() {
			got, err := in.admit(t, true, conflict)
			if err != nil {
				t.Error(err)
			}
			admitted[i] = got
		})
	}
	admit(0)
	waits(1)
	all.Go(func() { in.reseal(t) })
	waits(2)
	admit(1)
	waits(3)
	release()
	all.Wait()
	if admitted[0].Event != admitted[1].Event || in.Count(t, `SELECT count(*) FROM inbox_event`) != 2 {
		t.Errorf("the conflict is admitted as %+v and as %+v, want one event", admitted[0], admitted[1])
	}
	if in.withoutKey(t) != 0 || in.Count(t, `SELECT count(*) FROM effect WHERE event_id = $1`, admitted[0].Event) != 1 {
		t.Error("the admitted event has no effect, or a hash has no key")
	}
}

// A payload that is delivered again while a reseal gives its hash a key is kept once. The delivery comes when the reseal has read the
// payload's row and waits for a lock on it.
func TestAConflictComesWhileItsHashGetsAKey(t *testing.T) {
	t.Parallel()
	in := newIntroduction(t)
	payload := func(pin int) *inbox.Admission {
		return inboxtest.AdmissionOf(in.Source, "evt", fmt.Sprintf(`{"pin":%d}`, pin))
	}
	in.want(t, false, payload(1), inbox.Recorded, inbox.ID{})
	in.want(t, false, payload(2), inbox.Conflict, inbox.ID{})
	waits, release := in.holdConflict(t)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { in.reseal(t) })
	waits(1)
	all.Go(func() {
		if receipt, err := in.keyed.Accept(t.Context(), payload(2)); err != nil || receipt.Items[0].Outcome != inbox.Conflict {
			t.Errorf("%+v, %v", receipt, err)
		}
	})
	waits(2)
	release()
	all.Wait()
	if n, keyed := in.Count(t, `SELECT count(*) FROM conflict`), in.withoutKey(t); n != 1 || keyed != 0 {
		t.Errorf("%d payloads are kept and %d hashes have no key, want 1 and 0", n, keyed)
	}
	if n := in.Count(t, `SELECT deliveries FROM conflict`); n != 2 {
		t.Errorf("the payload has %d deliveries, want 2", n)
	}
}
