package prune_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// batch delivers three events under the first key, and settles them.
func sealedBatch(t *testing.T) (*storetest.Past, []inbox.ID) {
	t.Helper()
	p := storetest.NewPast(t)
	p.Sealing(t, storetest.RingOf(t, storetest.FirstKey+" active"))
	a := inboxtest.Batch(p.Source, "evt_1", "evt_2", "evt_3")
	a.Headers = []byte(`{"X-Batch":"b"}`)
	var ids []inbox.ID
	for _, item := range p.Accept(t, a, time.Minute).Items {
		p.Settle(t, item.ID, inbox.EffectDone, 0)
		ids = append(ids, item.ID)
	}
	return p, ids
}

func wantBodies(t *testing.T, p *storetest.Past, keys *seal.Keyring, ids []inbox.ID, left ...int) {
	t.Helper()
	lister := read.NewLister(p.Pool).WithKeyring(keys)
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
	keys := storetest.RingOf(t, storetest.FirstKey+"\n"+storetest.SecondKey+" active")
	if out := p.EraseWith(t, keys, "evt_2"); !out.Body || !out.Shared || out.Unopened || out.Others != 0 {
		t.Errorf("%+v", out)
	}
	wantBodies(t, p, keys, ids, 1, 3)
	key, headers, body := p.Delivery(t, keys, ids[0])
	if want := `[{"id":"evt_1"},` + strings.Repeat(" ", 14) + `,{"id":"evt_3"}]`; key != 2 || headers != `{"X-Batch":"b"}` || body != want {
		t.Errorf("key %d, headers %s, body %s, want %s", key, headers, body, want)
	}
	p.EraseWith(t, keys, "evt_1")
	p.EraseWith(t, keys, "evt_3")
	if n := p.Count(t, `SELECT count(*) FROM inbox_body`); n > 0 {
		t.Error("the delivery is still there, though all of its events are erased")
	}
}

// Without the key nothing can be blanked, but the event is erased; where the key
// is, the bytes go with the next event that is.
func TestEraseUnderALostKey(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]*seal.Keyring{"another keyring": storetest.RingOf(t, storetest.SecondKey+" active"), "no keyring": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ids := sealedBatch(t)
			p.Exec(t, `UPDATE effect SET rendered = 'sealed', rendered_key_id = 1, result = 'sealed', result_key_id = 1 WHERE event_id = $1`, ids[0])
			p.Exec(t, `INSERT INTO operation_result (event_id, status, key_id, document, rendered_at) VALUES ($1, 'done', 1, 'sealed', now())`, ids[0])
			p.Exec(t, `INSERT INTO replay (id, state, scope, actor) VALUES ($1, 'done', '{}', 'a')`, ids[0])
			p.Exec(t, `INSERT INTO replay_item (replay_id, position, effect_id, event_id, route_id, action, diff, diff_key_id) VALUES ($1, 1, $1, $1, 1, 'replay', 'sealed', 1)`, ids[0])
			p.Exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, key_id, headers, body, size)
				VALUES ($1, $2, now(), 'mismatch', '', true, 'POST', '/', '', 1, 'sealed', 'sealed', 1)`, ids[0], p.Source.ID)
			out := p.EraseWith(t, lost, "evt_1")
			want := prune.Erased{Event: ids[0], Unopened: true, Effects: 1, Results: 1, Diffs: 1, Unreadable: 1}
			if !reflect.DeepEqual(out, want) {
				t.Errorf("erased %+v, want %+v", out, want)
			}
			whole := storetest.RingOf(t, storetest.FirstKey+" active")
			wantBodies(t, p, whole, ids, 2, 3)
			if out := p.EraseWith(t, whole, "evt_3"); out.Unopened || !out.Shared {
				t.Errorf("%+v", out)
			}
			wantBodies(t, p, whole, ids, 2)
			if _, _, body := p.Delivery(t, whole, ids[1]); strings.Contains(body, "evt_1") || strings.Contains(body, "evt_3") || !strings.Contains(body, "evt_2") {
				t.Errorf("the delivery is %s", body)
			}
			// The last one's goes unread.
			if out := p.EraseWith(t, lost, "evt_2"); !out.Body || out.Unopened {
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
			keys := storetest.RingOf(t, storetest.FirstKey+" active")
			p.Exec(t, `INSERT INTO inbox_body (class, id, key_id, headers, body) SELECT 'kept', b.id, b.key_id, b.headers, b.body FROM inbox_body b`)
			p.Exec(t, `UPDATE inbox_event SET class = 'kept' WHERE id = ANY ($1::uuid[])`, ids[:moved])
			p.EraseWith(t, keys, "evt_1")
			wantBodies(t, p, keys, ids, 2, 3)
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
