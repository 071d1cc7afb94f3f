package receiver

import (
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// Listed makes the admission of an event that was read from its sender's list, as the receiver would have
// made it of a delivery.
func Listed(source *inbox.Source, listed *providers.Listed, now time.Time) *inbox.Admission {
	// The list was read from the sender's own server, so its time of the event can be trusted. An event that is older than
	// keys are kept is held for an operator: it may have been recorded, and its key pruned since.
	delivery := &providers.Delivery{Items: listed.Items, SignedAt: listed.Created}
	return &inbox.Admission{
		Source: source, Body: listed.Body, Headers: []byte(`{"Content-Type":["application/json"]}`), ReceivedAt: now,
		Reconciled: true, Events: newEvents(delivery),
	}
}
