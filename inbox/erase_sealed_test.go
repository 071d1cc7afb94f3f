package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/seal"
)

const (
	firstKey  = "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	secondKey = "2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
)

func ringOf(tb testing.TB, text string) *seal.Keyring {
	tb.Helper()
	keys, err := seal.New(func() ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// sealing is a gate of the same schema that seals with the keys.
func (p *past) sealing(t *testing.T, keys *seal.Keyring) {
	t.Helper()
	gate, err := inbox.NewGate(inbox.GateConfig{
		Pool: p.Pool, Enqueuer: storetest.Queue(), Keyring: keys,
		Clock: inbox.NewClock(p.Pool, func() time.Time { return time.Unix(0, p.At.Load()) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Stop(context.WithoutCancel(t.Context())) })
	p.Gate = gate
}

func (p *past) eraseWith(t *testing.T, keys *seal.Keyring, key string) inbox.Erased {
	t.Helper()
	out, err := inbox.EraseEvent(t.Context(), p.Pool, inbox.Erase{Source: "stripe", EventID: key, Actor: "test", Reason: "a test", Keyring: keys})
	if err != nil {
		t.Fatalf("erasing %s: %v", key, err)
	}
	return out
}

// delivery opens a delivery as it is stored.
func (p *past) delivery(t *testing.T, keys *seal.Keyring, event inbox.ID) (key int32, headers, body string) {
	t.Helper()
	var id inbox.ID
	var stored [2][]byte
	err := p.Pool.QueryRow(t.Context(), `SELECT b.id, b.key_id, b.headers, b.body FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id AND b.class = e.class WHERE e.id = $1`, event).
		Scan(&id, &key, &stored[0], &stored[1])
	if err != nil {
		t.Fatal(err)
	}
	for i, column := range []string{"headers", "body"} {
		if stored[i], err = keys.Open(seal.Place{Table: "inbox_body", Column: column, Row: id}, &key, stored[i]); err != nil {
			t.Fatalf("the %s of the delivery: %v", column, err)
		}
	}
	return key, string(stored[0]), string(stored[1])
}

// batch delivers three events under the first key, and settles them.
func sealedBatch(t *testing.T) (*past, []inbox.ID) {
	t.Helper()
	p := newPast(t)
	p.sealing(t, ringOf(t, firstKey+" active"))
	a := inboxtest.Batch(p.Source, "evt_1", "evt_2", "evt_3")
	a.Headers = []byte(`{"X-Batch":"b"}`)
	var ids []inbox.ID
	for _, item := range p.Accept(t, a, time.Minute).Items {
		p.Settle(t, item.ID, inbox.EffectDone, 0)
		ids = append(ids, item.ID)
	}
	return p, ids
}

func (p *past) wantBodies(t *testing.T, keys *seal.Keyring, ids []inbox.ID, left ...int) {
	t.Helper()
	lister := inbox.NewLister(p.Pool).WithKeyring(keys)
	want := map[int]bool{}
	for _, n := range left {
		want[n] = true
	}
	for i, id := range ids {
		body, err := lister.Body(t.Context(), id)
		switch {
		case want[i+1] && (err != nil || string(body) != fmt.Sprintf(`{"id":"evt_%d"}`, i+1)):
			t.Errorf("the body of event %d is %q, %v", i+1, body, err)
		case !want[i+1] && !errors.Is(err, inbox.ErrNotFound):
			t.Errorf("the body of erased event %d: %q, %v", i+1, body, err)
		}
	}
}

// A delivery that is sealed with an old key is blanked and sealed with the active
// one, headers and all.
func TestEraseOneOfASealedBatch(t *testing.T) {
	t.Parallel()
	p, ids := sealedBatch(t)
	keys := ringOf(t, firstKey+"\n"+secondKey+" active")
	if out := p.eraseWith(t, keys, "evt_2"); !out.Body || !out.Shared || out.Unopened || out.Others != 0 {
		t.Errorf("%+v", out)
	}
	p.wantBodies(t, keys, ids, 1, 3)
	key, headers, body := p.delivery(t, keys, ids[0])
	if want := `[{"id":"evt_1"},` + strings.Repeat(" ", 14) + `,{"id":"evt_3"}]`; key != 2 || headers != `{"X-Batch":"b"}` || body != want {
		t.Errorf("key %d, headers %s, body %s, want %s", key, headers, body, want)
	}
	p.eraseWith(t, keys, "evt_1")
	p.eraseWith(t, keys, "evt_3")
	if n := p.Count(t, `SELECT count(*) FROM inbox_body`); n > 0 {
		t.Error("the delivery is still there, though all of its events are erased")
	}
}

// Without the key nothing can be blanked, but the event is erased; where the key
// is, the bytes go with the next event that is.
func TestEraseUnderALostKey(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]*seal.Keyring{"another keyring": ringOf(t, secondKey+" active"), "no keyring": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ids := sealedBatch(t)
			p.Exec(t, `UPDATE effect SET rendered = 'sealed', rendered_key_id = 1, result = 'sealed', result_key_id = 1 WHERE event_id = $1`, ids[0])
			p.Exec(t, `INSERT INTO operation_result (event_id, status, key_id, document, rendered_at) VALUES ($1, 'done', 1, 'sealed', now())`, ids[0])
			p.Exec(t, `INSERT INTO replay (id, state, scope, actor) VALUES ($1, 'done', '{}', 'a')`, ids[0])
			p.Exec(t, `INSERT INTO replay_item (replay_id, position, effect_id, event_id, route_id, action, diff, diff_key_id) VALUES ($1, 1, $1, $1, 1, 'replay', 'sealed', 1)`, ids[0])
			p.Exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, key_id, headers, body, size)
				VALUES ($1, $2, now(), 'mismatch', '', true, 'POST', '/', '', 1, 'sealed', 'sealed', 1)`, ids[0], p.Source.ID)
			out := p.eraseWith(t, lost, "evt_1")
			want := inbox.Erased{Event: ids[0], Unopened: true, Effects: 1, Results: 1, Diffs: 1, Unreadable: 1}
			if !reflect.DeepEqual(out, want) {
				t.Errorf("erased %+v, want %+v", out, want)
			}
			whole := ringOf(t, firstKey+" active")
			p.wantBodies(t, whole, ids, 2, 3)
			if out := p.eraseWith(t, whole, "evt_3"); out.Unopened || !out.Shared {
				t.Errorf("%+v", out)
			}
			p.wantBodies(t, whole, ids, 2)
			if _, _, body := p.delivery(t, whole, ids[1]); strings.Contains(body, "evt_1") || strings.Contains(body, "evt_3") || !strings.Contains(body, "evt_2") {
				t.Errorf("the delivery is %s", body)
			}
			// The last one's goes unread.
			if out := p.eraseWith(t, lost, "evt_2"); !out.Body || out.Unopened {
				t.Errorf("%+v", out)
			}
			if n := p.Count(t, `SELECT count(*) FROM inbox_body`); n > 0 {
				t.Error("the delivery is still there")
			}
		})
	}
}

// A body that is kept beyond its day may be there twice.
func TestEraseWhatIsKept(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]int{"one event": 1, "all events": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ids := sealedBatch(t)
			keys := ringOf(t, firstKey+" active")
			p.Exec(t, `INSERT INTO inbox_body (class, id, key_id, headers, body) SELECT 'kept', b.id, b.key_id, b.headers, b.body FROM inbox_body b`)
			p.Exec(t, `UPDATE inbox_event SET class = 'kept' WHERE id = ANY ($1::uuid[])`, ids[:moved])
			p.eraseWith(t, keys, "evt_1")
			p.wantBodies(t, keys, ids, 2, 3)
			rows, err := p.Pool.Query(t.Context(), `SELECT id, key_id, body FROM inbox_body`)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var id inbox.ID
				var key int32
				var body []byte
				if err := rows.Scan(&id, &key, &body); err != nil {
					t.Fatal(err)
				}
				if body, err = keys.Open(seal.Place{Table: "inbox_body", Column: "body", Row: id}, &key, body); err != nil || strings.Contains(string(body), "evt_1") {
					t.Errorf("a copy still holds what was erased: %s, %v", body, err)
				}
			}
		})
	}
}
