package receiver_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

// The gate judges the age of a listed event by the time in the list, because the key of an old event may have been pruned.
func TestListedIsDatedByTheList(t *testing.T) {
	t.Parallel()
	created := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	listed := &providers.Listed{ID: "evt_1", Created: created, Body: []byte(`{"id":"evt_1"}`), Items: []providers.Item{{EventID: "evt_1", Type: "invoice.paid", Length: 14}}}
	a := receiver.Listed(&inbox.Source{Name: "stripe"}, listed, created.AddDate(2, 0, 0))
	if got := a.Events[0]; !got.DatedAt.Equal(created) || got.EventID != "evt_1" || !a.Reconciled {
		t.Errorf("%+v", a)
	}
}
