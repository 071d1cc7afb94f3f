package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
)

// EffectStates returns all states of effects.
func EffectStates() []string {
	return []string{"pending", "claimed", "retry", "held", "done", "dead", "indeterminate", "superseded", "skipped", "duplicate"}
}

// Admissions returns how an event may be admitted, other than as ok.
func Admissions() []string { return []string{"unusable", "beyond_retention", "unrouted"} }

// oneOf refuses a word that is not one of the known ones.
func oneOf(field, word string, known []string) error {
	if word == "" || slices.Contains(known, word) {
		return nil
	}
	return invalid("%s %q is unknown; known are %s", field, word, strings.Join(known, ", "))
}

// ListEventsRequest narrows a list of events. A zero field does not narrow it.
type ListEventsRequest struct {
	PageRequest
	TenantFilter `flag:"--tenant only this tenant"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Type is the event's type, exact.
	Type string `json:"type,omitempty" flag:"--type only this event type"`

	// State selects events that have an effect in this state. For unusable, beyond_retention and unrouted, it selects
	// events so admitted.
	State string `json:"state,omitempty" flag:"--state only this state:"`

	// Route selects events that have an effect of this route.
	Route string `json:"route,omitempty" flag:"--route only events with an effect of this route"`

	// EventID is the sender's id of the event, exact.
	EventID string `json:"event_id,omitempty" searches:"event_id"`

	// Label selects events by a label that their source declares, as name=value. A value alone is looked for under every
	// declared label, and several that have it are refused as ambiguous.
	Label string `json:"label,omitempty" searches:"label" flag:"--label only events with this label of their source: ''name=value'' or a value alone"`

	// Since is the earliest receipt of the event. Until is the end of the receipts.
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`
	Until time.Time `json:"until,omitzero" flag:"--until only those received before"`
}

// ListEvents lists events.
var ListEvents = Operation[ListEventsRequest, read.Page[read.EventRow]]{
	ID: "list_events", Method: "GET", Path: "/events", Scope: ReadMetadata,
	Summary: "List events, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListEventsRequest) (page read.Page[read.EventRow], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		if err := oneOf("state", r.State, append(EffectStates(), Admissions()...)); err != nil {
			return page, err
		}
		if err := ordered(r.Since, r.Until); err != nil {
			return page, err
		}
		filter := read.EventFilter{
			Source: r.Source, Tenant: tenant, Type: r.Type, State: r.State, Route: r.Route, EventID: r.EventID, Since: r.Since, Until: r.Until,
		}
		if filter.Label, err = s.searchedLabel(ctx, r.Label, filter); err != nil {
			return page, err
		}
		return readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.EventRow], error) {
			filter.Cursor, filter.Limit = at.Cursor, at.Limit
			return s.lister.Events(ctx, filter)
		})
	},
}

// EventReference names an event.
type EventReference struct {
	// Ref is Oncegate's id of the event, or its key, source/event-id.
	Ref string `json:"ref" searches:"event_id"`
}

// ShowEvent shows one event with its effects.
var ShowEvent = Operation[EventReference, *read.EventDetail]{
	ID: "show_event", Method: "GET", Path: "/events/{ref}", Scope: ReadMetadata,
	Summary: "Show one event with its effects, but without its body.",
	Do: func(ctx context.Context, s *Service, access Access, r EventReference) (*read.EventDetail, error) {
		return s.event(ctx, access, r.Ref)
	},
}

// event reads an event that the access may see.
func (s *Service) event(ctx context.Context, access Access, ref string) (*read.EventDetail, error) {
	event, err := s.lister.ForTenant(access.Tenant).Event(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := access.owns(event.Tenant, "event", ref); err != nil {
		return nil, err
	}
	if event.Effects == nil {
		event.Effects = []read.EffectRow{}
	}
	return event, nil
}

// ReadEventBody returns the exact bytes of an event's body.
var ReadEventBody = Operation[EventReference, Content]{
	ID: "read_event_body", Method: "GET", Path: "/events/{ref}/body", Scope: ReadPayload,
	Summary: "Give the exact bytes of an event's body.",
	Do: func(ctx context.Context, s *Service, access Access, r EventReference) (Content, error) {
		event, err := s.event(ctx, access, r.Ref)
		if err != nil {
			return Content{}, err
		}
		body, err := s.lister.Body(ctx, event.ID)
		if err != nil {
			return Content{}, err
		}
		return s.revealed(ctx, access, "event/"+event.ID.String(), Content{Name: "event-" + event.ID.String() + ".bin", Bytes: body})
	},
}
