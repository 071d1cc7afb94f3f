package read_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// An event is shown between its neighbours in the stream, and how many numbers are missing is said where numbers must
// follow each other.
func TestAnEventIsShownBetweenItsNeighbours(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	stream := b.Stream("a", "2")
	first, second, fifth := b.Effect("a", 1, inbox.EffectDone), b.Effect("a", 2, inbox.EffectDone), b.Effect("a", 5, inbox.EffectHeld)
	b.Effect("b", 3, inbox.EffectDone) // of another key
	show := func(id inbox.ID) read.StreamPlace {
		t.Helper()
		d, err := b.Lister.Event(t.Context(), id.String())
		if err != nil || len(d.Sequence) != 1 {
			t.Fatalf("%v, %+v", err, d)
		}
		return d.Sequence[0]
	}
	if s := show(second); s.Stream != stream || s.Route != "fulfil" || s.Number != "2" || s.Before == nil || s.Before.Event != first || s.Before.Number != "1" ||
		s.After == nil || s.After.Event != fifth || s.After.Number != "5" || s.After.State != "held" || s.MissingBefore != "" || s.MissingAfter != "" {
		t.Errorf("%+v", s)
	}
	if s := show(first); s.Before != nil || s.After == nil || s.After.Event != second {
		t.Errorf("the first: %+v", s)
	}
	policy, err := json.Marshal(sequence.Policy{Mode: sequence.Contiguous})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, b.Pool, `INSERT INTO order_definition (route_id, digest, salted, words, policy) VALUES ($1, sha256('x'), false, 'x', $2)`, b.Route, policy)
	if s := show(second); s.MissingBefore != "" || s.MissingAfter != "2" {
		t.Errorf("3 and 4 are missing: %+v", s)
	}
	if s := show(fifth); s.MissingBefore != "2" || s.After != nil {
		t.Errorf("the last: %+v", s)
	}
}

// Somebody of a tenant is not told of the events of others, and nothing is missing where they are.
func TestNeighboursOfOtherTenantsAreNotTold(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	b.Stream("a", "2")
	theirs, mine := b.Effect("a", 1, inbox.EffectDone), b.Effect("a", 2, inbox.EffectDone)
	storetest.Exec(t, b.Pool, `UPDATE inbox_event SET tenant = CASE id WHEN $1 THEN 'theirs' ELSE 'mine' END WHERE id IN ($1, $2)`, theirs, mine)
	d, err := b.Lister.ForTenant("mine").Event(t.Context(), mine.String())
	if err != nil || len(d.Sequence) != 1 || d.Sequence[0].Before != nil || d.Sequence[0].MissingBefore != "" {
		t.Errorf("%v, %+v", err, d.Sequence)
	}
}

func TestLabelsOfAnEventAreShown(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	id := b.Effect("a", 1, inbox.EffectDone)
	storetest.Exec(t, b.Pool, `INSERT INTO event_label (event_id, name, value, secret_id) VALUES ($1, 'order', '1042', NULL), ($1, 'customer', '\x00ff', $2)`, id, inbox.NewID(time.Now()))
	// One of another event and one of this one wait for their index.
	storetest.Exec(t, b.Pool, `INSERT INTO event_label_batch (id, event_id, name, value) VALUES ($1, ARRAY[$2, $1]::uuid[], '{parcel,parcel}', '{x,y}')`, id, inbox.NewID(time.Now()))
	d, err := b.Lister.Event(t.Context(), id.String())
	if err != nil || len(d.Labels) != 3 {
		t.Fatalf("%v, %+v", err, d)
	}
	if d.Labels[0] != (read.EventLabel{Name: "customer", Hashed: true}) || d.Labels[1] != (read.EventLabel{Name: "order", Value: "1042"}) ||
		d.Labels[2] != (read.EventLabel{Name: "parcel", Value: "y"}) {
		t.Errorf("%+v", d.Labels)
	}
}
