package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// CancelListRequest names the list that is cancelled.
type CancelListRequest struct {
	Match
	Explained `required:"reason"`

	// ID identifies the effect that became the list.
	ID inbox.ID `json:"id"`
}

// CancelList ends a list whose messages are being sent.
var CancelList = Operation[CancelListRequest, decide.CancelledList]{
	ID: "cancel_list", Method: "POST", Path: "/effects/{id}/cancel", Scope: Operate,
	Summary: "Cancel a list of messages. Attempts that have begun end, and the other messages are skipped.",
	Why:     "why is it cancelled?", Confirm: "cancel",
	Do: func(ctx context.Context, s *Service, access Access, r CancelListRequest) (out decide.CancelledList, err error) {
		if err := s.lister.CheckTenant(ctx, access.Tenant, r.ID); err != nil {
			return out, err
		}
		if r.IfMatch != "" {
			effect, err := s.lister.Effect(ctx, r.ID)
			if err != nil {
				return out, err
			}
			if err := r.check(effect.Tag()); err != nil {
				return out, err
			}
		}
		out, err = decide.New(s.store).CancelList(ctx, decide.CancelList{Effect: r.ID, Actor: access.Actor, Reason: r.Reason})
		return out, r.changed(err)
	},
}
