package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/providers"
)

// judgedEvent is a recorded event as its provider's description reads it today.
type judgedEvent struct {
	*replay.RecordedEvent
	source *judgedSource // nil if the source is gone from the configuration

	signature string
	identity  []replay.Change

	// item is the event as it is read today. It is nil if it cannot be read.
	item *providers.Item

	// unusable is why the event could not be used today either.
	unusable string
}

// wasUnusable reports whether the event was recorded under the hash of its bytes.
func (e *judgedEvent) wasUnusable() bool { return strings.HasPrefix(e.Event.EventID, "~") }

// extract verifies the delivery with today's secrets, at the time of its receipt, and reads the
// event from it as the receiver would.
func (e *judgedEvent) extract() {
	switch {
	case e.source == nil:
		return
	case e.Delivery == nil:
		e.signature = "not checked: the body is gone"
		return
	case e.source.provider.IsOperation():
		e.signature = "not checked: callers' credentials are not kept"
		return
	}
	items, said := e.read()
	e.signature = said
	if e.Item >= len(items) {
		e.identity = append(e.identity, replay.Change{Path: "events", Before: fmt.Sprint(e.Item + 1), After: fmt.Sprint(len(items))})
		return
	}
	item := &items[e.Item]
	if item.Unusable != "" {
		e.unusable = item.Unusable
		if !e.wasUnusable() {
			e.identity = append(e.identity, replay.Change{Path: "event_id", Before: e.Event.EventID})
		}
		return
	}
	e.item = item
	for _, field := range []struct{ name, before, after string }{
		{"event_id", e.Event.EventID, item.EventID}, {"type", e.Event.Type, item.Type},
		{"occurred_at", instant(e.Event.OccurredAt), instant(item.OccurredAt)},
	} {
		if field.before != field.after {
			e.identity = append(e.identity, replay.Change{Path: field.name, Before: field.before, After: field.after})
		}
	}
	if item.Offset != e.Offset || item.Length != e.Length {
		e.identity = append(e.identity, replay.Change{
			Path: "bytes", Before: fmt.Sprintf("%d+%d", e.Offset, e.Length), After: fmt.Sprintf("%d+%d", item.Offset, item.Length),
		})
	}
}

// read returns the delivery's events, and the result of verifying its signature.
func (e *judgedEvent) read() (items []providers.Item, said string) {
	defer func() {
		if recover() != nil { // the provider's code failed, as it can in the receiver
			items, said = nil, "not checked: the provider's code failed"
		}
	}()
	request := providers.Request{
		Method: http.MethodPost, URL: e.source.ExternalURL, Header: http.Header{}, Body: e.Delivery, ReceivedAt: e.Event.ReceivedAt,
	}
	if json.Unmarshal(e.Event.Headers, &request.Header) != nil {
		request.Header = http.Header{}
	}
	delivery, err := e.source.provider.Verify(&request, e.source.secrets)
	if err == nil && delivery != nil {
		said = "verified"
		if delivery.Secret != "" {
			said += " by " + delivery.Secret
		}
		return delivery.Items, said
	}
	items = e.source.provider.Inspect(&request).Items
	refusal, refused := errors.AsType[*providers.Refusal](err)
	switch {
	case refused && refusal.Reason == providers.ReasonUnsigned:
		return items, "not checked: what proved it is not kept"
	case refused:
		return items, "not verified: " + refusal.Error()
	case errors.Is(err, errOffline):
		return items, "not checked: " + errOffline.Error()
	}
	return items, "not checked: the provider could not say"
}
