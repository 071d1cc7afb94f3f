package receiver

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/internal/visible"
	"github.com/oncegate/oncegate/providers"
)

// Headers of an answer about an operation. A stored result never changes, so these headers carry the facts that are
// not in it.
const (
	// HeaderIntentHash is the SHA-256 of the call's canonical payload, in hex. Two calls with the same hash ask for
	// the same. A caller may send it with a call, which is then refused unless its payload has that hash.
	HeaderIntentHash = "Oncegate-Intent-Hash"

	// HeaderExpiresAt is until when the key and the result of the operation are kept at least. A call that is repeated
	// later may be taken for a new one.
	HeaderExpiresAt = "Oncegate-Expires-At"
)

// acknowledgement is the answer to the first call of an operation. Event and Status lead, as in
// every acknowledgement.
type acknowledgement struct {
	Event      string         `json:"event"`
	Status     string         `json:"status"`
	EventID    string         `json:"event_id,omitempty"`
	Operation  string         `json:"operation,omitempty"`
	State      string         `json:"state"`
	IntentHash string         `json:"intent_hash,omitempty"`
	Retriable  bool           `json:"retriable"`
	Next       operation.Next `json:"next"`
	ExpiresAt  string         `json:"expires_at,omitempty"`
	Repeats    string         `json:"suspected_repeat,omitempty"`
}

// inFlightDocument answers a question about an operation that has no result yet.
type inFlightDocument struct {
	Event      string         `json:"event"`
	Status     string         `json:"status"`
	State      string         `json:"state"`
	Retriable  bool           `json:"retriable"`
	Next       operation.Next `json:"next"`
	RetryAfter int            `json:"retry_after"`
	ExpiresAt  string         `json:"expires_at,omitempty"`
}

// acknowledgeCaller acknowledges the call of an operation. A custom provider with its own form of acknowledgement
// keeps it.
func acknowledgeCaller(source *endpoint, res *result) providers.Reply {
	reply := acknowledge(source, res)
	event := res.event.String()
	if string(reply.Body) != `{"event":"`+event+`","status":"`+string(res.status)+`"}` {
		return reply
	}
	document := acknowledgement{
		Event: event, Status: string(res.status), EventID: res.problem.eventID, Operation: res.problem.operation, State: stateInFlight,
		IntentHash: hex.EncodeToString(res.problem.intentHash), Retriable: true, Next: operation.NextWait, ExpiresAt: source.expires(res.event), Repeats: res.repeats,
	}
	if res.outcome == outcomeUnusable || res.outcome == outcomeBeyondRetention {
		document.State, document.Retriable, document.Next = string(operation.ResultFailed), false, operation.NextCorrect // it has no effects
	}
	if text, err := json.Marshal(&document); err == nil {
		reply.Body = visible.JSON(text)
	}
	return reply
}

// withFacts adds the facts about the operation that are not in its result.
func (req *request) withFacts(reply providers.Reply, res *result) providers.Reply {
	if res.event.IsZero() {
		return reply
	}
	if expires := req.source.expires(res.event); expires != "" {
		reply.Header = withHeader(reply.Header, HeaderExpiresAt, expires)
	}
	if hash := res.problem.intentHash; hash != nil {
		reply.Header = withHeader(reply.Header, HeaderIntentHash, hex.EncodeToString(hash))
	}
	if !req.repeats.IsZero() {
		reply.Header = withHeader(reply.Header, HeaderSuspectedRepeat, req.repeats.String())
	}
	return reply
}

// expires is until when the event's key is kept at least; empty if nothing bounds it. An event's id
// begins with the time at which it was recorded.
func (e *endpoint) expires(event inbox.ID) string {
	if e.Inbox.Tombstone <= 0 {
		return ""
	}
	return event.Time().Add(e.Inbox.Tombstone).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// await asks for a result and remembers how long the caller chose to wait for it.
func (o *operations) await(req *request, event inbox.ID, wait time.Duration) (document []byte, ok bool, err error) {
	ctx := req.http.Context()
	if wait <= 0 {
		bounded, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		return o.cfg.Outcomes.Await(bounded, event, wait)
	}
	begun := o.cfg.Now()
	document, ok, err = o.cfg.Outcomes.Await(ctx, event, wait)
	req.waited = o.cfg.Now().Sub(begun)
	return document, ok, err
}
