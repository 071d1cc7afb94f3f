package sql

import (
	"encoding/json"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
)

// document is the event as SQL functions receive it. The names are an interface: never change.
type document struct {
	Event          string          `json:"event"`
	Source         string          `json:"source"`
	Provider       string          `json:"provider"`
	ID             string          `json:"id"`
	Type           string          `json:"type"`
	OccurredAt     *time.Time      `json:"occurred_at,omitempty"`
	ReceivedAt     time.Time       `json:"received_at"`
	Route          string          `json:"route"`
	Key            string          `json:"key"`
	SequenceKey    string          `json:"sequence_key,omitempty"`
	SequenceNumber string          `json:"sequence_number,omitempty"`
	Body           json.RawMessage `json:"body,omitempty"`
	BodyBytes      []byte          `json:"body_base64,omitempty"`
	Fetched        json.RawMessage `json:"fetched,omitempty"`
}

// Document returns the event as JSON: its attributes and, as "body", its payload. A body that is
// not JSON is in "body_base64". The answer of the route's fetch, if it has one, is in "fetched".
func Document(call *effect.Call) ([]byte, error) {
	e := call.Event
	d := document{
		Event: e.ID, Source: e.Source, Provider: e.Provider, ID: e.EventID, Type: e.Type, ReceivedAt: e.ReceivedAt.UTC(),
		Route: call.Route, Key: call.Key, SequenceKey: e.SequenceKey, SequenceNumber: e.SequenceNumber, Fetched: e.Fetched,
	}
	if !e.OccurredAt.IsZero() {
		at := e.OccurredAt.UTC()
		d.OccurredAt = &at
	}
	if body := e.JSON(); json.Valid(body) {
		d.Body = body
	} else {
		d.BodyBytes = e.Body
	}
	return json.Marshal(d)
}
