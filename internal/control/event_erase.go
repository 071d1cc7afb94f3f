package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox/prune"
)

// EraseEventRequest names the event whose content is erased permanently.
type EraseEventRequest struct {
	Match
	Explained `required:"reason"`

	// Ref is our id of the event, or source/event-id.
	Ref string `json:"ref" searches:"event_id"`
}

// EraseEvent erases the content of an event and keeps its key.
var EraseEvent = Operation[EraseEventRequest, prune.Erased]{
	ID: "erase_event", Method: "POST", Path: "/events/{ref}/erase", Scope: Admin,
	Summary: "Erase the content of one event for good, and keep its key. It cannot be undone.",
	Why:     "who asked for it?", Confirm: "erase",
	Do: func(ctx context.Context, s *Service, access Access, r EraseEventRequest) (out prune.Erased, err error) {
		event, err := s.lister.Event(ctx, r.Ref)
		if err != nil {
			return out, err
		}
		if err := access.owns(event.Tenant, "event", r.Ref); err != nil {
			return out, err
		}
		if err := r.check(event.Tag()); err != nil {
			return out, err
		}
		return prune.EraseEvent(ctx, s.cfg.Pool, prune.Erase{
			Source: event.Source, EventID: event.EventID, Actor: access.Actor, Reason: r.Reason, Keyring: s.cfg.Keyring, Archive: s.cfg.Archive,
		})
	},
}
