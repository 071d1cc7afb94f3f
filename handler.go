package oncegate

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Event is the argument of a handler: ID (Oncegate's own), Source, Provider, EventID (the
// sender's), Type, OccurredAt, ReceivedAt, Body (the exact bytes), ContentType, Headers,
// Traceparent, SequenceKey and SequenceNumber.
type Event = effect.Event

// Call is one attempt of a handler outside the database: the Event, the Route, the Key by which the
// other system can deduplicate, and the number of the Attempt.
type Call = effect.Call

// OutsideHandler acts outside the database: it calls a service, for example, or moves a file.
// Handle makes one attempt. Deduplicates says that Handle may be called again with the same
// Call.Key after an attempt with an unknown outcome. Without it, an operator must resolve such an
// effect.
type OutsideHandler = effect.OutsideHandler

// Permanent marks an error of a handler that no retry can fix: nothing happened, and the effect
// becomes a dead letter. The error's text is stored, so it must not quote content.
func Permanent(err error) error { return effect.Permanent(err) }

// After marks an error of a handler that did nothing and must be called again, no sooner than after
// d. The error's text is stored, so it must not quote content.
func After(d time.Duration, err error) error { return effect.After(d, err) }

// Handle attaches a function to the routes of this name that have no target. Call it before
// [Inbox.Run], once for each such name.
//
// The function runs in the transaction that records that it ran, so its writes through tx happen
// exactly once. It must neither commit nor roll back tx, and its statements must name their schema
// (public.ledger), because tx's search path is Oncegate's. An error rolls back the writes. Oncegate
// retries according to the route's Retry, unless the error is [Permanent] or the database reports
// an error that no retry can fix. The context ends with the route's Timeout.
//
// Run also returns an error of Handle, so you need not check it here.
func (i *Inbox) Handle(route string, handle func(ctx context.Context, tx pgx.Tx, e Event) error) error {
	if handle == nil {
		return i.server.Handle(route, app.Handler{})
	}
	return i.server.Handle(route, app.Handler{Transactional: effect.HandlerFunc(handle)})
}

// HandleOutside is like [Inbox.Handle] for work outside the database. Oncegate commits the claim
// before it calls the function, so no transaction stays open during the call.
func (i *Inbox) HandleOutside(route string, handler OutsideHandler) error {
	if handler.Handle == nil {
		return i.server.Handle(route, app.Handler{})
	}
	return i.server.Handle(route, app.Handler{Sender: &handler})
}
