package oncegate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Event is what a handler gets: ID (Oncegate's own), Source, Provider, EventID (the sender's),
// Type, OccurredAt, ReceivedAt, Body (the exact bytes), ContentType, Headers, Traceparent,
// SequenceKey and SequenceNumber.
type Event = effect.Event

// Call is one attempt of a handler outside the database: the Event, the Route, the Key under
// which the other side can deduplicate, and the number of the Attempt.
type Call = effect.Call

// OutsideHandler is a function that acts outside the database: it calls a service, or moves a
// file. Handle makes one attempt. Deduplicates says that it may be called again with the same
// Call.Key after an attempt whose end nobody saw; otherwise such an effect waits for a person.
type OutsideHandler = effect.OutsideHandler

// Permanent marks an error of a handler that no retry can help: nothing happened, and the
// effect becomes a dead letter. Its text is kept, so it must not quote content.
func Permanent(err error) error { return effect.Permanent(err) }

// After marks an error of a handler that did nothing and is to be called again, no sooner than
// d. Its text is kept, so it must not quote content.
func After(d time.Duration, err error) error { return effect.After(d, err) }

// Handle attaches a function to the routes of this name that have no target. It must be called
// before [Inbox.Run], once for each such name.
//
// The function runs in the transaction that records that it ran: what it writes through tx
// happens exactly once. It must neither commit nor roll back tx, and its statements name their
// schema (public.ledger), since tx's search path is Oncegate's. An error rolls back what it
// wrote. It is retried by the route's Retry, unless it is [Permanent], or the database says that no
// retry can help. The context ends with the route's Timeout.
//
// An error of Handle is returned by Run as well, so it need not be looked at.
func (i *Inbox) Handle(route string, handle func(ctx context.Context, tx pgx.Tx, e Event) error) error {
	if handle == nil {
		return i.attach(route, app.Handler{})
	}
	return i.attach(route, app.Handler{Transactional: effect.HandlerFunc(handle)})
}

// HandleOutside is [Inbox.Handle] for what happens outside the database. The claim is committed
// before the function is called, and no transaction waits for it.
func (i *Inbox) HandleOutside(route string, handler OutsideHandler) error {
	if handler.Handle == nil {
		return i.attach(route, app.Handler{})
	}
	return i.attach(route, app.Handler{Sender: &handler})
}

func (i *Inbox) attach(route string, handler app.Handler) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != opened {
		return fmt.Errorf("attaching a handler to route %q: %w", route, i.phase.refusal())
	}
	err := i.check(route, handler)
	if err != nil {
		i.mistakes = append(i.mistakes, err)
		return err
	}
	i.handlers[route] = handler
	return nil
}

func (i *Inbox) check(route string, handler app.Handler) error {
	if _, twice := i.handlers[route]; twice {
		return fmt.Errorf("route %q has two handlers: attach one", route)
	}
	if handler.Transactional == nil && handler.Sender == nil {
		return fmt.Errorf("the handler of route %q is nil", route)
	}
	if names := i.handled(); !slices.Contains(names, route) {
		if len(names) == 0 {
			return fmt.Errorf("there is no route %q without a target: every route of the configuration has one", route)
		}
		return fmt.Errorf("there is no route %q without a target; those that need a handler are %s", route, strings.Join(names, ", "))
	}
	return nil
}

// handled are the names of the routes that need a handler.
func (i *Inbox) handled() (names []string) {
	for _, t := range i.settings.Targets {
		if t.Kind == config.KindHandler {
			names = append(names, t.Name)
		}
	}
	return names
}

// complete returns what is wrong with the handlers that were attached.
func (i *Inbox) complete() error {
	errs := slices.Clone(i.mistakes)
	if i.works {
		for _, s := range i.settings.Sources {
			for _, r := range s.Routes {
				if _, ok := i.handlers[r.Target.Name]; r.Target.Kind == config.KindHandler && !ok {
					errs = append(errs, fmt.Errorf("route %q of source %q has neither a target nor a handler: call Handle(%q, ...) before Run", r.Name, s.Name, r.Name))
				}
			}
		}
	}
	return errors.Join(errs...)
}
