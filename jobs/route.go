package jobs

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Route is what the worker needs to know about a route in addition to what the store knows ([inbox.EffectRoute]).
type Route struct {
	Name     string
	Source   string
	Provider string

	// KeySource is the source name that recipes of keys see: the name under which the source
	// was first registered, so that a renamed source makes the same keys. Empty is Source.
	KeySource string

	// Version is the version of the route that this configuration registered.
	Version int

	// Target names the sender or the transactional that carries the effects out.
	Target string

	// When is the route's condition. An effect for which it is false is skipped. nil is no condition.
	When *expression.Program

	// Fetch gets what the event names before an attempt. Expressions then see the answer as "fetched". nil fetches
	// nothing.
	Fetch *Fetch

	// Key makes the effect's key. Of all effects with the same key, one happens. nil is the event's own key, which no
	// other effect has.
	Key *expression.Recipe

	// KeyOf makes the idempotency key that is sent from the result of Key; see [inbox.MeaningKey]. nil keeps the
	// event's key, which is necessary if equal keys mean different things after some time.
	KeyOf func(recipe []byte) string

	// List expands one effect into several. nil is no expansion.
	List *List

	// Suppressed reports whether the message that is about to be sent goes to a suppressed address; the effect is
	// skipped then. The worker calls it right before each attempt. An error means that the answer is unknown. nil
	// suppresses no address.
	Suppressed func(ctx context.Context, rendered []byte) (bool, error)

	// Document returns the JSON document that the body of an event carries, such as the claims of a
	// signed token, or the body itself. Expressions, templates and SQL functions read it. nil means
	// that the body is the document.
	Document func(body []byte) []byte

	// Map makes the JSON body that is sent. nil sends the body as received.
	Map *expression.Mapping

	// Timeout bounds one attempt. It must leave a fifth of the lease, at most 5 s, for the settlement. It defaults to
	// 10 s, or to what the lease allows if that is less.
	Timeout time.Duration
}

// route is a route as the workers use it: its configuration, what the store knows about it, and what carries its
// effects out. It does not change after [New].
type route struct {
	Route
	stored inbox.EffectRoute

	// configured is false for a route that the store knows and this client does not. Such a route has neither a sender
	// nor a transactional.
	configured bool

	// One of the two is set.
	sender        effect.Sender
	transactional effect.Transactional

	limit      *limiter
	fetchLimit *limiter // nil without a fetch

	// turns has a slot for each effect that may act inside the database at once.
	turns chan struct{}
}

// routeOf returns the route with that id. If this client does not know it, the route has only what the store knows, if
// anything.
func (c *Client) routeOf(id int32) *route {
	if r, ok := c.routes[id]; ok {
		return r
	}
	stored, _ := c.store.Route(id)
	return &route{stored: stored}
}

// patience is how long an effect of the route waits for its turn, and then for a connection. The two waits together
// leave a committed claim half of its lease.
func (r *route) patience() time.Duration { return min(r.stored.Lease/4, 10*time.Second) }

// wants reports whether the route's condition lets an effect happen. It does not evaluate the condition for an item of a
// list, because its list has passed it.
func (r *Route) wants(claim *inbox.Claim) (bool, error) {
	if r.When == nil || claim.Item > 0 {
		return true, nil
	}
	return r.When.Bool(r.input(claim))
}

// unwanted returns the state in which an effect ends whose condition is false. An earlier attempt whose end was not seen
// evaluated the same condition if the route has not changed, so it sent nothing. Under another version of the route the
// condition may have been true, so the effect may have happened.
func (r *Route) unwanted(claim *inbox.Claim) inbox.EffectState {
	if !claim.UnknownSince.IsZero() && claim.RouteVersion != r.Version {
		return inbox.EffectIndeterminate
	}
	return inbox.EffectSkipped
}

// asksForKey reports whether an attempt must claim the effect's key. Every attempt must, because only the database knows
// the owner: a run whose end was not seen may have learned that another effect owns the key, and an effect that left a
// resting state may have lost it. Only the first attempt of an item of a list need not, because the item got its key when it
// was written.
func (r *Route) asksForKey(claim *inbox.Claim) bool {
	switch {
	case r.Key == nil:
		return false
	case claim.Item > 0:
		return claim.KeyHash != nil && (claim.Attempt > 1 || claim.Trigger != inbox.TriggerInitial)
	}
	return true
}

// remakeKey makes the idempotency key from the result of the recipe in the first attempt of an effect. Later attempts
// keep the key because an attempt may have been made under it. meaning is the meaning of the effect's only item, or
// empty if the effect is not a list.
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

// expands reports whether the effect may become several.
func (r *Route) expands(claim *inbox.Claim) bool {
	return r.List != nil && claim.Item == 0 && (claim.Rendered == nil || isList(claim.Rendered))
}

// mapBody returns the body that the route's mapping makes of the event, or nil if there is no mapping or a stored body
// is used.
func (r *Route) mapBody(call *effect.Call, claim *inbox.Claim) ([]byte, error) {
	if r.Map == nil || call.Address != "" && call.Rendered == nil { // an earlier attempt sent the body as received, to that address
		return nil, nil
	}
	call.Event.ContentType = "application/json"
	if call.Rendered != nil {
		return nil, nil
	}
	return r.Map.JSON(r.requestInput(claim))
}

// call returns one attempt at a claim as its kind sees it. Rendered is the stored request, unchanged.
func (r *Route) call(claim *inbox.Claim) *effect.Call {
	e, headers := claim.Event, headersOf(claim.Event.Headers)
	call := &effect.Call{
		Event: effect.Event{
			ID: e.ID.String(), Source: r.Source, Provider: r.Provider, EventID: e.EventID, Type: e.Type,
			OccurredAt: e.OccurredAt, ReceivedAt: e.ReceivedAt, Body: e.Body, ContentType: headers.Get("Content-Type"), Headers: headers,
			Traceparent: e.Traceparent, SequenceNumber: claim.SequenceNumber, Fetched: claim.Fetched,
		},
		Route: r.Name, Key: claim.Key, Attempt: claim.Attempt, Rendered: claim.Rendered,
	}
	if r.Document != nil {
		call.Event.Document = r.Document(e.Body)
	}
	if claim.SequenceKeyHash != nil {
		// The key itself is not stored. Its hash identifies the sequence as well.
		call.Event.SequenceKey = hex.EncodeToString(claim.SequenceKeyHash)
	}
	return call
}
