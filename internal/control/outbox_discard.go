package control

import (
	"context"
	"strconv"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
)

// DiscardOutboxRequest names the emitted event that is removed.
type DiscardOutboxRequest struct {
	Explained `required:"reason"`

	// ID is the number of the row.
	ID int64 `json:"id"`
}

// DiscardOutbox removes an emitted event that can never be admitted.
var DiscardOutbox = Operation[DiscardOutboxRequest, read.OutboxRow]{
	ID: "discard_outbox", Method: "POST", Path: "/outbox/{id}/discard", Scope: Operate,
	Summary: "Remove an emitted event that can never be admitted, with its payload.",
	Why:     "why is it not needed any more?", Confirm: "discard",
	Do: func(ctx context.Context, s *Service, access Access, r DiscardOutboxRequest) (out read.OutboxRow, err error) {
		if access.Tenant != "" {
			rows, err := s.lister.Outbox(ctx, read.OutboxFilter{Tenant: access.Tenant, ID: r.ID})
			if err != nil {
				return out, err
			}
			if len(rows.Data) == 0 {
				return out, notFound("outbox row", strconv.FormatInt(r.ID, 10))
			}
		}
		return decide.DiscardOutbox{ID: r.ID, Actor: access.Actor, Reason: r.Reason}.Run(ctx, s.cfg.Pool)
	},
}
