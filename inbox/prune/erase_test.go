package prune_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
)

// Nothing of the content is left in any table, and the key still refuses.
func TestEraseLeavesTheTombstone(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	const canary = "canary-4711"
	a := inboxtest.AdmissionOf(p.Source, "evt_1", `{"id":"evt_1","name":"`+canary+`"}`)
	a.Headers = []byte(`{"X-Name":"` + canary + `"}`)
	id := p.Accept(t, a, time.Minute).Items[0].ID
	p.Settle(t, id, inbox.EffectDone, 0)
	other := p.Deliver(t, "evt_2", time.Minute, inbox.EffectDone)
	p.Exec(t, `UPDATE effect SET rendered = 'canary-4711', result = 'canary-4711' WHERE event_id = $1`, id)
	p.Exec(t, `UPDATE effect_attempt SET excerpt = 'canary-4711' WHERE effect_id IN (SELECT id FROM effect WHERE event_id = $1)`, id)
	p.Exec(t, `UPDATE effect SET state = 'duplicate', result = 'canary-4711', duplicate_of = (SELECT id FROM effect WHERE event_id = $1) WHERE event_id = $2`, id, other)
	p.Exec(t, `INSERT INTO operation_result (event_id, status, document, rendered_at) VALUES ($1, 'done', 'canary-4711', now()), ($2, 'done', 'canary-4711', now())`, id, other)
	for i, body := range []string{`{"id":"evt_1","name":"` + canary + `"}`, `{"id":"evt_7"}`} {
		p.Exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, headers, body, size)
			VALUES ($1, $2, now(), 'mismatch', '', true, 'POST', '/', '', '{}', $3, 1)`, inbox.NewID(time.Now().Add(time.Duration(i)*time.Second)), p.Source.ID, []byte(body))
	}
	// What was emitted under its id and refused goes, and what was emitted under another one stays.
	p.Exec(t, `INSERT INTO outbox (source, event_id, type, payload, refused_at, refusal) VALUES
		('stripe', 'evt_1', 'x', 'canary-4711', now(), 'too_large'), ('stripe', 'evt_9', 'x', '{}', now(), 'too_large'), ('shop', 'evt_1', 'x', '{}', now(), 'too_large')`)
	out, err := p.Erase(t, "evt_1")
	if err != nil {
		t.Fatal(err)
	}
	want := prune.Erased{Event: id, Body: true, Effects: 1, Attempts: 1, Duplicates: 1, Results: 2, Refusals: 1}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("erased %+v, want %+v", out, want)
	}
	for _, table := range []string{"inbox_event", "inbox_body", "effect", "effect_attempt", "operation_result", "refusal", "audit", "river_job", "outbox"} {
		if n := p.Count(t, `SELECT count(*) FROM `+table+` r WHERE r::text LIKE '%canary-4711%' OR r::text LIKE '%'||encode('canary-4711', 'hex')||'%'`); n > 0 {
			t.Errorf("%s still holds the content", table)
		}
	}
	if n := p.Count(t, `SELECT count(*) FROM outbox`); n != 2 {
		t.Errorf("%d of the 2 other refused emissions are left", n)
	}
	if n := p.Count(t, `SELECT count(*) FROM audit WHERE action = 'event.erase' AND actor = 'test' AND reason = 'a test' AND object = 'event/' || $1`, id); n != 2 {
		t.Errorf("%d audit entries, want its begin and its end", n)
	}
	if got := p.Accept(t, inboxtest.AdmissionOf(p.Source, "evt_1", string(a.Body)), 0).Items[0]; got.Outcome != inbox.Duplicate || got.ID != id {
		t.Errorf("a redelivery is %s of %s, want a duplicate of %s", got.Outcome, got.ID, id)
	}
	if event, effect, body := p.Has(t, id); !event || !effect || body {
		t.Errorf("event %t, effect %t, body %t: want the first two", event, effect, body)
	}
	if again, err := p.Erase(t, "evt_1"); err != nil || again.Body {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

// The others of a delivery keep their bytes, where they are, until the last goes.
func TestEraseOneOfABatch(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	receipt := p.Accept(t, inboxtest.Batch(p.Source, "evt_1", "evt_2", "evt_3"), time.Minute)
	for _, item := range receipt.Items {
		p.Settle(t, item.ID, inbox.EffectDone, 0)
	}
	out, err := p.Erase(t, "evt_2")
	if err != nil || !out.Shared || !out.Body {
		t.Fatalf("%+v, %v", out, err)
	}
	lister := read.NewLister(p.Pool)
	for i, item := range receipt.Items {
		body, err := lister.Body(t.Context(), item.ID)
		if i == 1 {
			if !errors.Is(err, inbox.ErrNotFound) {
				t.Errorf("the body of the erased event: %q, %v", body, err)
			}
			continue
		}
		if want := fmt.Sprintf(`{"id":"evt_%d"}`, i+1); err != nil || string(body) != want {
			t.Errorf("the body of event %d is %q, %v, want %q", i+1, body, err, want)
		}
	}
	if n := p.Count(t, `SELECT count(*) FROM inbox_body WHERE position('evt_2'::bytea IN body) > 0`); n > 0 {
		t.Error("the bytes of the erased event are still in the delivery")
	}
	for _, key := range []string{"evt_1", "evt_3"} {
		if _, err := p.Erase(t, key); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Count(t, `SELECT count(*) FROM inbox_body`); n > 0 {
		t.Error("the delivery is still there, though all of its events are erased")
	}
}

func TestEraseIsRefusedInFlight(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	for state, refused := range map[inbox.EffectState]bool{
		inbox.EffectPending: true, inbox.EffectClaimed: true, inbox.EffectRetry: true, inbox.EffectHeld: true,
		inbox.EffectDead: false, inbox.EffectIndeterminate: false, inbox.EffectDone: false, inbox.EffectSkipped: false,
	} {
		id := p.Deliver(t, "evt_"+string(state), time.Minute, state)
		_, err := p.Erase(t, "evt_"+string(state))
		if refused != errors.Is(err, prune.ErrInFlight) || !refused && err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if _, _, body := p.Has(t, id); body != refused {
			t.Errorf("%s: the body is there: %t", state, body)
		}
	}
	if _, err := p.Erase(t, "evt_none"); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("an event that is not there: %v", err)
	}
	if _, err := prune.EraseEvent(t.Context(), p.Pool, prune.Erase{Source: "stripe", EventID: "evt_done", Actor: "a"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
}
