package prune_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/labels"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// labelled is a source whose events are searched by the text behind "order: " in their bodies, and by more labels than may be kept.
type labelled struct {
	*storetest.Past
	keys   *seal.Keyring
	secret inbox.InstallationSecret

	// indexed: labels are moved into their index after each delivery. Else they wait all the time.
	indexed bool
}

// storedLabels are all labels, those that wait among them.
const storedLabels = `(SELECT event_id, name, value, secret_id FROM event_label
    UNION ALL SELECT k.*, b.secret_id FROM event_label_batch b CROSS JOIN LATERAL unnest(b.event_id, b.name, b.value) AS k (event_id, name, value))`

func newLabelled(t *testing.T, keys *seal.Keyring) *labelled {
	t.Helper()
	l := &labelled{Past: storetest.NewPast(t), keys: keys}
	l.Source.Labels = func(a *inbox.Admission, event int) []inbox.Label {
		e := a.Events[event]
		_, order, _ := strings.Cut(string(a.Body[e.Offset:e.Offset+e.Length]), `"order":"`)
		order, _, _ = strings.Cut(order, `"`)
		out := []inbox.Label{{Name: "order", Value: order}, {Name: "zero", Value: "\x00"}, {Name: "long", Value: strings.Repeat("x", 256)}, {Name: "empty"}}
		for n := range inbox.MaxLabels {
			out = append(out, inbox.Label{Name: fmt.Sprintf("more_%d", n), Value: "x"})
		}
		return out
	}
	err := pgx.BeginFunc(t.Context(), l.Pool, func(tx pgx.Tx) (err error) {
		l.secret, err = inbox.InstallationSecretTx(t.Context(), tx, keys)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Gate, err = gate.New(gate.Config{
		Pool: l.Pool, Enqueuer: storetest.Queue(), Keyring: keys, Installation: l.secret,
		Clock: inbox.NewClock(l.Pool, func() time.Time { return time.Unix(0, l.At.Load()) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Gate.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Gate.Stop(context.WithoutCancel(t.Context())) })
	return l
}

func (l *labelled) deliver(t *testing.T, id, order string, ago time.Duration) inbox.ItemReceipt {
	t.Helper()
	item := l.Accept(t, inboxtest.AdmissionOf(l.Source, id, fmt.Sprintf(`{"id":%q,"order":%q}`, id, order)), ago).Items[0]
	l.Settle(t, item.ID, inbox.EffectDone, ago)
	if l.indexed {
		if err := labels.MoveAll(t.Context(), l.Pool); err != nil {
			t.Fatal(err)
		}
	}
	return item
}

// orders are the values by which an event is found.
func (l *labelled) orders(t *testing.T, event inbox.ID) [][]byte {
	t.Helper()
	rows, err := l.Pool.Query(t.Context(), `SELECT value FROM `+storedLabels+` l WHERE event_id = $1 AND name = 'order'`, event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stored is an order as it has to be stored.
func (l *labelled) stored(order string) []byte {
	return inbox.Label{Name: "order", Value: order}.Stored(l.secret.Value)
}

// An event has the labels of the payload that was recorded, whatever else is delivered under its id, and they go with it.
func TestLabelsGoWithTheirEvent(t *testing.T) {
	t.Parallel()
	ring := storetest.RingOf(t, storetest.FirstKey+" active")
	for name, c := range map[string]struct {
		keys    *seal.Keyring
		indexed bool
	}{"plain, indexed": {indexed: true}, "plain, waiting": {}, "sealed, indexed": {ring, true}, "sealed, waiting": {keys: ring}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, l := c.keys, newLabelled(t, c.keys)
			l.indexed = c.indexed
			first := l.deliver(t, "evt_1", "order-of-ann", time.Minute)
			old := l.deliver(t, "evt_old", "order-of-bob", 40*storetest.Day)
			l.deliver(t, "evt_1", "order-of-ann", time.Minute)
			if other := l.deliver(t, "evt_1", "order-of-eve", time.Minute); other.Outcome != inbox.Conflict {
				t.Fatalf("another payload was %s", other.Outcome)
			}
			if got := l.orders(t, first.ID); len(got) != 1 || !bytes.Equal(got[0], l.stored("order-of-ann")) {
				t.Errorf("the event is found by %q", got)
			}
			if n := l.Count(t, `SELECT count(*) FROM `+storedLabels+` l WHERE event_id = $1`, first.ID); n != inbox.MaxLabels {
				t.Errorf("the event has %d labels, want the most, which is %d", n, inbox.MaxLabels)
			}
			readable := l.Count(t, `SELECT count(*) FROM `+storedLabels+` l WHERE position('order-of'::bytea IN value) > 0`)
			if hashed := keys != nil; hashed != (readable == 0) {
				t.Errorf("%d labels can be read", readable)
			}
			if keys != nil && bytes.Contains(l.stored("order-of-ann"), []byte("ann")) {
				t.Error("the hash has the value in it")
			}

			// The payload that somebody admits is an event of its own, with labels of its own.
			var conflict inbox.ID
			if err := l.Pool.QueryRow(t.Context(), `SELECT id FROM conflict`).Scan(&conflict); err != nil {
				t.Fatal(err)
			}
			admitted, err := decide.AdmitConflict{
				Pool: l.Pool, Gate: l.Gate, Keyring: keys, Clock: inboxtest.Clock(t, l.Pool), Source: l.Source, Conflict: conflict, Actor: "ann", Reason: "a test",
			}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.Settle(t, admitted.Event, inbox.EffectDone, 0)
			if got := l.orders(t, admitted.Event); len(got) != 1 || !bytes.Equal(got[0], l.stored("order-of-eve")) {
				t.Errorf("the admitted payload is found by %q", got)
			}

			// The list finds events by them, also beside other conditions, and none by the value of another label.
			found := func(f read.EventFilter) (out []string) {
				page, err := read.NewLister(l.Pool).WithKeyring(keys).Events(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for i := range page.Data {
					out = append(out, page.Data[i].EventID)
				}
				return out
			}
			order := func(value string) inbox.Label { return inbox.Label{Name: "order", Value: value} }
			for _, c := range []struct {
				filter read.EventFilter
				want   string
			}{
				{read.EventFilter{Label: order("order-of-ann")}, "evt_1"},
				{read.EventFilter{Label: order("order-of-bob")}, "evt_old"},
				{read.EventFilter{Label: order("order-of-bob"), Since: time.Now().Add(-time.Hour)}, ""},
				{read.EventFilter{Label: order("order-of-ann"), Source: "stripe", State: "done"}, "evt_1"},
				{read.EventFilter{Label: order("order-of-ann"), Source: "another"}, ""},
				{read.EventFilter{Label: inbox.Label{Name: "more_0", Value: "order-of-ann"}}, ""},
				{read.EventFilter{Label: inbox.Label{Name: "more_0", Value: "x"}, Limit: 10}, admitted.EventID + " evt_1 evt_old"},
			} {
				if got := strings.Join(found(c.filter), " "); got != c.want {
					t.Errorf("%+v found %q, want %q", c.filter, got, c.want)
				}
			}
			page, err := read.NewLister(l.Pool).WithKeyring(keys).Events(t.Context(), read.EventFilter{Label: inbox.Label{Name: "more_0", Value: "x"}, Limit: 2})
			if err != nil || len(page.Data) != 2 || !page.HasMore {
				t.Fatalf("the first page is %+v, %v", page, err)
			}
			page, err = read.NewLister(l.Pool).WithKeyring(keys).Events(t.Context(), read.EventFilter{Label: inbox.Label{Name: "more_0", Value: "x"}, Limit: 2, Cursor: page.Next})
			if err != nil || len(page.Data) != 1 || page.Data[0].EventID != "evt_old" || page.HasMore {
				t.Fatalf("the second page is %+v, %v", page, err)
			}
			if keys != nil {
				if _, err := read.NewLister(l.Pool).Events(t.Context(), read.EventFilter{Label: order("order-of-ann")}); err == nil {
					t.Error("a search without the keyring says that there is nothing")
				}
			}

			if erased := l.EraseWith(t, keys, "evt_1"); erased.Labels != inbox.MaxLabels {
				t.Errorf("%d labels were erased", erased.Labels)
			}
			if got := l.orders(t, first.ID); len(got) != 0 {
				t.Errorf("the erased event is found by %q", got)
			}
			report := l.Prune(t)
			if got := l.orders(t, old.ID); len(got) != 0 || report.Rows["event_label"] != inbox.MaxLabels {
				t.Errorf("the pruned event is found by %q, and %d labels were pruned", got, report.Rows["event_label"])
			}
			if n := l.Count(t, `SELECT count(*) FROM `+storedLabels+` l WHERE NOT EXISTS (SELECT FROM inbox_event e WHERE e.id = l.event_id)`); n != 0 {
				t.Errorf("%d labels have no event", n)
			}
			if got := l.orders(t, admitted.Event); len(got) != 1 {
				t.Errorf("the labels of the admitted event went too: %q", got)
			}
		})
	}
}

// Labels from before there was a keyring are hashed when the rest is sealed.
func TestResealHashesLabels(t *testing.T) {
	t.Parallel()
	l := newLabelled(t, nil)
	event := l.deliver(t, "evt_1", "order-of-ann", time.Minute)
	for n := range 600 { // more than a page
		l.Exec(t, `INSERT INTO event_label (event_id, name, value) VALUES ($1, 'order', $2)`, inbox.NewID(time.Now()), fmt.Appendf(nil, "order-of-%d", n))
	}
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	plain := func() int { return l.Count(t, `SELECT count(*) FROM `+storedLabels+` l WHERE secret_id IS NULL`) }
	usage := func() int64 {
		all, err := prune.KeyUsages(t.Context(), l.Pool)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(u prune.KeyUsage) bool { return u.Table == "event_label" })
		if at < 0 {
			return 0
		}
		return all[at].Values
	}
	if int(usage()) != plain() || plain() == 0 {
		t.Errorf("of %d plain labels %d are shown", plain(), usage())
	}
	if _, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: l.Pool, Keyring: keys}); err != nil {
		t.Fatal(err)
	}
	if plain() != 0 || usage() != 0 {
		t.Errorf("%d labels are plain", plain())
	}
	secrets, err := inbox.InstallationSecrets(t.Context(), l.Pool, keys, nil)
	if err != nil || len(secrets) != 1 {
		t.Fatalf("%d secrets, %v", len(secrets), err)
	}
	want := inbox.Label{Name: "order", Value: "order-of-ann"}.Stored(secrets[0].Value)
	if got := l.orders(t, event.ID); len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("the event is found by %q, want %q", got, want)
	}
}
