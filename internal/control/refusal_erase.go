package control

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
)

// EraseRefusalsRequest says which refused deliveries are erased permanently. All fields that are set must match.
type EraseRefusalsRequest struct {
	Explained `required:"reason"`

	// Source is the name of a source; it is required.
	Source string `json:"source" flag:"--source the source; required"`

	// IDs are Oncegate's ids of refusals.
	IDs []inbox.ID `json:"ids,omitempty"`

	// Peer is the address of the sender, as refusals show it.
	Peer string `json:"peer,omitempty" flag:"--peer only those from this address, as a refusal shows it"`

	// Containing is a text in the URL, the headers or the body, such as the mail address of a person. It has at least 4
	// bytes, and case is ignored.
	Containing string `json:"containing,omitempty" searches:"content" flag:"--containing only those that contain this text of at least 4 bytes, such as a mail address"`

	// Since is the earliest receipt. Until is the end of the receipts.
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`
	Until time.Time `json:"until,omitzero" flag:"--until only those received before"`
}

// EraseRefusals erases refused deliveries.
var EraseRefusals = Operation[EraseRefusalsRequest, prune.ErasedRefusals]{
	ID: "erase_refusals", Method: "POST", Path: "/refusals/erase", Scope: Admin,
	Summary: "Erase refused deliveries for good: by id, sender, time, or by a text that they contain. It cannot be undone.",
	Why:     "who asked for it?", Confirm: "erase",
	Do: func(ctx context.Context, s *Service, access Access, r EraseRefusalsRequest) (out prune.ErasedRefusals, err error) {
		if r.Source == "" {
			return out, invalid("source is missing")
		}
		if err := ordered(r.Since, r.Until); err != nil {
			return out, err
		}
		if err := s.ownsSource(ctx, access, r.Source); err != nil {
			return out, err
		}
		out, err = prune.EraseRefusals{
			Source: r.Source, IDs: r.IDs, Peer: r.Peer, Containing: r.Containing, Since: r.Since, Until: r.Until,
			Actor: access.Actor, Reason: r.Reason, Keyring: s.cfg.Keyring,
		}.Run(ctx, s.cfg.Pool)
		if errors.Is(err, prune.ErrRefusalScope) {
			err = invalid("%v", prune.ErrRefusalScope)
		}
		return out, err
	},
}
