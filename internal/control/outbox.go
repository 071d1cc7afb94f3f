package control

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
)

// ListOutboxRequest narrows a list of emitted events that are not admitted yet. A zero field does not
// narrow it.
type ListOutboxRequest struct {
	PageRequest
	TenantFilter `flag:"--tenant only this tenant"`

	// ID is the number of one row, for the page of the console that shows it.
	ID int64 `json:"-"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Refused selects the events that can never be admitted.
	Refused bool `json:"refused,omitempty" flag:"--refused only those that can never be admitted"`

	// Since is the earliest call of emit.
	Since time.Time `json:"since,omitzero" flag:"--since only those emitted since"`
}

// ListOutbox lists emitted events that are not admitted yet.
var ListOutbox = Operation[ListOutboxRequest, read.Page[read.OutboxRow]]{
	ID: "list_outbox", Method: "GET", Path: "/outbox", Scope: ReadMetadata,
	Summary: "List emitted events that are not admitted yet, the oldest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListOutboxRequest) (page read.Page[read.OutboxRow], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		return readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.OutboxRow], error) {
			return s.lister.Outbox(ctx, read.OutboxFilter{ID: r.ID, Source: r.Source, Tenant: tenant, Refused: r.Refused, Since: r.Since, Cursor: at.Cursor, Limit: at.Limit})
		})
	},
}

// OutboxReference names a row of the outbox.
type OutboxReference struct {
	// ID is the number of the row.
	ID int64 `json:"id"`
}

// ReadOutboxPayload returns the exact bytes of an emitted event.
var ReadOutboxPayload = Operation[OutboxReference, Content]{
	ID: "read_outbox_payload", Method: "GET", Path: "/outbox/{id}/payload", Scope: ReadPayload,
	Summary: "Give the exact bytes of an emitted event that is not admitted yet.",
	Do: func(ctx context.Context, s *Service, access Access, r OutboxReference) (Content, error) {
		rows, err := s.lister.Outbox(ctx, read.OutboxFilter{Tenant: access.Tenant, ID: r.ID})
		if err != nil {
			return Content{}, err
		}
		if len(rows.Data) == 0 {
			return Content{}, notFound("outbox row", strconv.FormatInt(r.ID, 10))
		}
		body, err := s.lister.OutboxBody(ctx, r.ID)
		if err != nil {
			return Content{}, err
		}
		return s.revealed(ctx, access, fmt.Sprintf("outbox/%d", r.ID), Content{Name: fmt.Sprintf("outbox-%d.bin", r.ID), Bytes: body})
	},
}
