package control

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
)

// ConflictFilter narrows conflicts. A zero field does not narrow them.
type ConflictFilter struct {
	TenantFilter `flag:"--tenant only this tenant"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Event selects the conflicts of the event with this id.
	Event inbox.ID `json:"event,omitzero" flag:"--event only this event, by Oncegate's id"`

	// Since selects payloads that were delivered since then, including those that had also been
	// delivered before.
	Since time.Time `json:"since,omitzero" flag:"--since only those delivered since"`
}

// filter returns the filter for a caller.
func (f *ConflictFilter) filter(access Access) (read.ConflictFilter, error) {
	tenant, err := f.narrow(access)
	return read.ConflictFilter{Source: f.Source, Tenant: tenant, Event: f.Event, Since: f.Since}, err
}

// ListConflictsRequest narrows a list of conflicts. A zero field does not narrow it.
type ListConflictsRequest struct {
	PageRequest
	ConflictFilter

	// Waiting selects the conflicts that were neither admitted nor dismissed.
	Waiting bool `json:"waiting,omitempty" flag:"--waiting only those that were neither admitted nor dismissed"`
}

// ListConflicts lists payloads that arrived under the id of another event.
var ListConflicts = Operation[ListConflictsRequest, read.Page[read.ConflictRow]]{
	ID: "list_conflicts", Method: "GET", Path: "/conflicts", Scope: ReadMetadata,
	Summary: "List the payloads that came under the id of an event that had been recorded with another payload, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListConflictsRequest) (page read.Page[read.ConflictRow], err error) {
		filter, err := r.filter(access)
		if err != nil {
			return page, err
		}
		return readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.ConflictRow], error) {
			filter.Waiting, filter.Cursor, filter.Limit = r.Waiting, at.Cursor, at.Limit
			return s.lister.Conflicts(ctx, filter)
		})
	},
}

// ShowConflict shows one conflict.
var ShowConflict = Operation[IDRequest, *read.ConflictRow]{
	ID: "show_conflict", Method: "GET", Path: "/conflicts/{id}", Scope: ReadMetadata,
	Summary: "Show one payload that conflicts with an event, but not the payload itself.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (*read.ConflictRow, error) {
		return s.conflict(ctx, access, r.ID)
	},
}

// conflict reads a conflict that the access may see.
func (s *Service) conflict(ctx context.Context, access Access, id inbox.ID) (*read.ConflictRow, error) {
	row, err := s.lister.Conflict(ctx, id)
	if err != nil {
		return nil, err
	}
	return row, access.owns(row.Tenant, "conflict", id.String())
}

// ReadConflictBody returns the exact bytes of a conflicting payload.
var ReadConflictBody = Operation[IDRequest, Content]{
	ID: "read_conflict_body", Method: "GET", Path: "/conflicts/{id}/body", Scope: ReadPayload,
	Summary: "Give the exact bytes of a payload that conflicts.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (Content, error) {
		if _, err := s.conflict(ctx, access, r.ID); err != nil {
			return Content{}, err
		}
		body, err := s.lister.ConflictBody(ctx, r.ID)
		if err != nil {
			return Content{}, err
		}
		return s.revealed(ctx, access, "conflict/"+r.ID.String(), Content{Name: "conflict-" + r.ID.String() + ".bin", Bytes: body})
	},
}

// ListConflictChanges compares a conflicting payload with the payload of its event.
var ListConflictChanges = Operation[IDRequest, read.Page[replay.Change]]{
	ID: "list_conflict_changes", Method: "GET", Path: "/conflicts/{id}/changes", Scope: ReadPayload,
	Summary: "List the differences between a conflicting payload and its event's payload. Members whose names suggest secrets are masked.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (page read.Page[replay.Change], err error) {
		row, err := s.conflict(ctx, access, r.ID)
		if err != nil {
			return page, err
		}
		other, err := s.lister.ConflictBody(ctx, r.ID)
		if err != nil {
			return page, err
		}
		first, err := s.lister.Body(ctx, row.Event)
		if errors.Is(err, inbox.ErrNotFound) {
			return page, &Problem{Code: CodeNotFound, Detail: "the payload of the event is not kept any more, so there is nothing to compare with; the body of the conflict is"}
		}
		if err != nil {
			return page, err
		}
		if err := s.reveal(ctx, access, "conflict/"+r.ID.String()); err != nil {
			return page, err
		}
		return whole(app.PayloadChanges(s.cfg.Settings, row.Source, first, other)), nil
	},
}
