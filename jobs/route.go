package jobs

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncegate/oncegate/expression"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Route is what the worker has to know about a route, beside what the store
// knows ([inbox.EffectRoute]).
type Route struct {
	Name     string
	Source   string
	Provider string

	// KeySource is the name of the source that recipes of keys see: the one it was first
	// registered under, so that a renamed source makes the same keys. Empty is Source.
	KeySource string

	// Version is the route's, as it is registered for this configuration.
	Version int

	// Target names the sender or the transactional that carries the effects out.
	Target string

	// When is the route's condition: an effect for which it is false is skipped. nil
	// is none.
	When *expression.Program

	// Key makes the effect's key: of all effects with one key, one happens. nil is
	// the event's own key, under which there are no others.
	Key *expression.Recipe

	// KeyOf makes the idempotency key that is sent, from the result of Key; see [inbox.MeaningKey]. nil keeps the event's key, which
	// is needed where equal keys mean different things once they are a time apart.
	KeyOf func(recipe []byte) string

	// List makes several effects of one; nil leaves it one.
	List *List

	// Suppressed reports whether what is about to be sent goes to somebody to whom nothing may
	// be sent; the effect is skipped then. It is asked right before each attempt. An error
	// means that it is not known. nil is nobody.
	Suppressed func(ctx context.Context, rendered []byte) (bool, error)

	// Map makes the body that is sent on, as JSON. nil sends it as received.
	Map *expression.Mapping

	// Timeout bounds one attempt. It must leave a fifth of the lease, at most 5 s,
	// for the settlement. It defaults to 10 s or, if that is less, to as much as
	// the lease allows.
	Timeout time.Duration
}

// route is a route as the workers use it: its configuration, what the store knows of it,
// and what carries its effects out. Nothing of it changes after [New].
type route struct {
	Route
	stored inbox.EffectRoute

	// configured is false for a route that the store knows and this client does not. It
	// has neither a sender nor a transactional.
	configured bool

	// One of the two is set.
	sender        effect.Sender
	transactional effect.Transactional

	limit *limiter

	// turns has a place for each effect that may act inside the database at once.
	turns chan struct{}
}

// routeOf gives the route of that id; an empty one if nobody here knows it.
func (c *Client) routeOf(id int32) *route {
	if r, ok := c.routes[id]; ok {
		return r
	}
	stored, _ := c.store.Route(id)
	return &route{stored: stored}
}

// patience is how long an effect of the route waits for its turn, and for a connection.
// Together they leave a committed claim half of its lease.
func (r *route) patience() time.Duration { return min(r.stored.Lease/4, 10*time.Second) }

// wants reports whether the route's condition lets an effect happen. One that may
// have happened, or is an item of a list that was let through, is not asked.
func (r *Route) wants(claim *inbox.Claim) (bool, error) {
	if r.When == nil || claim.Item > 0 || !claim.UnknownSince.IsZero() {
		return true, nil
	}
	return r.When.Bool(r.input(claim))
}

// asksForKey reports whether an attempt has to ask for the effect's key: the first one
// with which it comes back from a state at rest, where it may have lost the key, and one
// after a run whose end was not seen, which may not have come to asking. An item of a list
// got its key when it was written, and asks when it comes back from a state at rest.
func (r *Route) asksForKey(claim *inbox.Claim) bool {
	switch {
	case r.Key == nil:
		return false
	case claim.Item > 0:
		return claim.KeyHash != nil && claim.Attempt <= 1 && claim.Trigger != inbox.TriggerInitial
	}
	return claim.KeyHash == nil || claim.Attempt <= 1 || claim.Trigger == inbox.TriggerSweep
}

// remakeKey makes the idempotency key from the result of the recipe, in the first attempt of an effect. Later attempts keep the key,
// because an attempt may have been made under it. meaning is the meaning of the effect's only item; empty if the effect is no list.
func (r *Route) remakeKey(claim *inbox.Claim, recipe []byte, meaning string) {
	if r.KeyOf == nil || claim.Item > 0 {
		return
	}
	first := claim.Attempt <= 1 && claim.Version <= 1 && claim.UnknownSince.IsZero() && claim.KeyHash == nil && claim.Trigger != inbox.TriggerSweep
	key := r.KeyOf(recipe)
	if first && !claim.Remade {
		claim.Key, claim.Remade = key, true
	}
	if meaning != "" && claim.Key == key {
		claim.Key, claim.Remade = inbox.ItemKey(claim, meaning), true
	}
}

// expands reports whether the effect is one that may become several.
func (r *Route) expands(claim *inbox.Claim) bool {
	return r.List != nil && claim.Item == 0 && (claim.Rendered == nil || isList(claim.Rendered))
}

// mapBody gives what the route's mapping makes of the event; nil without one.
func (r *Route) mapBody(call *effect.Call, claim *inbox.Claim) ([]byte, error) {
	if r.Map == nil || call.Address != "" && call.Rendered == nil { // it went out as received, to that address
		return nil, nil
	}
	call.Event.ContentType = "application/json"
	if call.Rendered != nil {
		return nil, nil
	}
	return r.Map.JSON(r.requestInput(claim))
}

// call is one attempt at a claim as its kind sees it, with what is stored of its request as
// it is stored.
func (r *Route) call(claim *inbox.Claim) *effect.Call {
	e, headers := claim.Event, headersOf(claim.Event.Headers)
	call := &effect.Call{
		Event: effect.Event{
			ID: e.ID.String(), Source: r.Source, Provider: r.Provider, EventID: e.EventID, Type: e.Type,
			OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, Body: e.Body, ContentType: headers.Get("Content-Type"), Headers: headers,
			Traceparent: e.Traceparent, SequenceNumber: claim.SequenceNumber,
		},
		Route: r.Name, Key: claim.Key, Attempt: claim.Attempt, Rendered: claim.Rendered,
	}
	if claim.SequenceKeyHash != nil {
		// The key itself is not stored; its hash names the sequence as well.
		call.Event.SequenceKey = hex.EncodeToString(claim.SequenceKeyHash)
	}
	return call
}
