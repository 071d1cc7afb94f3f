package control

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// PageRequest is how every list is asked for its pages.
type PageRequest struct {
	// Limit is the most rows of the page, from 1 to 1,000; 0 is 50.
	Limit int `json:"limit,omitempty"`

	// After is the cursor of a page before: its next.
	After string `json:"after,omitempty"`
}

// limit gives the size of the page, or refuses it.
func (p PageRequest) limit() (int, error) {
	switch {
	case p.Limit == 0:
		return defaultPage, nil
	case p.Limit < 0 || p.Limit > maxPage:
		return 0, invalid("limit %d: must be from 1 to %d", p.Limit, maxPage)
	}
	return p.Limit, nil
}

const (
	defaultPage = 50
	maxPage     = 1000
)

// tenant is the tenant that a list is narrowed to: the caller's own, or the one that is asked for.
func (a Access) tenant(asked string) (string, error) {
	if a.Tenant == "" || asked == "" || asked == a.Tenant {
		return or(a.Tenant, asked), nil
	}
	return "", &Problem{Code: CodeForbidden, Detail: fmt.Sprintf("your access is limited to the tenant %s", a.Tenant)}
}

// ListEventsRequest narrows a list of events; a zero field does not.
type ListEventsRequest struct {
	PageRequest
	Source string    `json:"source,omitempty"`
	Tenant string    `json:"tenant,omitempty"`
	Type   string    `json:"type,omitempty"`
	State  string    `json:"state,omitempty"`
	Route  string    `json:"route,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// ListEvents lists events.
var ListEvents = Operation[ListEventsRequest, inbox.Page[inbox.EventRow]]{
	ID: "list_events", Method: "GET", Path: "/events", Scope: ReadMetadata,
	Summary: "List events, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListEventsRequest) (page inbox.Page[inbox.EventRow], err error) {
		limit, err := r.limit()
		if err != nil {
			return page, err
		}
		tenant, err := access.tenant(r.Tenant)
		if err != nil {
			return page, err
		}
		before, err := idCursor(r.After)
		if err != nil {
			return page, err
		}
		rows, err := s.lister.Events(ctx, inbox.EventFilter{
			Source: r.Source, Tenant: tenant, Type: r.Type, State: r.State, Route: r.Route, Since: r.Since, Before: before, Limit: limit + 1,
		})
		if err != nil {
			return page, err
		}
		return inbox.PageOf(rows, limit, func(row inbox.EventRow) string { return row.ID.String() }), nil
	},
}

// idCursor reads the cursor of a list that is ordered by id.
func idCursor(after string) (inbox.ID, error) {
	if after == "" {
		return inbox.ID{}, nil
	}
	id, err := inbox.ParseID(after)
	if err != nil {
		return id, invalid("after: not a cursor of this list; use the next of the page before")
	}
	return id, nil
}

// ReferenceRequest names one thing.
type ReferenceRequest struct {
	// Ref is our id, or source/event-id where the thing is an event.
	Ref string `json:"ref"`
}

// ShowEvent shows one event with its effects.
var ShowEvent = Operation[ReferenceRequest, *inbox.EventDetail]{
	ID: "show_event", Method: "GET", Path: "/events/{ref}", Scope: ReadMetadata,
	Summary: "Show one event with its effects.",
	Do: func(ctx context.Context, s *Service, access Access, r ReferenceRequest) (*inbox.EventDetail, error) {
		event, err := s.lister.Event(ctx, r.Ref)
		if err != nil {
			return nil, err
		}
		if access.Tenant != "" && event.Tenant != access.Tenant {
			return nil, fmt.Errorf("event %s: %w", r.Ref, inbox.ErrNotFound)
		}
		if event.EffectRows == nil {
			event.EffectRows = []inbox.EffectRow{}
		}
		return event, nil
	},
}
