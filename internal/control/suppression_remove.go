package control

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/suppression"
)

// RemoveSuppressionRequest names the address to which messages are sent again. The address is in the body because many
// systems log the URLs of requests.
type RemoveSuppressionRequest struct {
	Explained `required:"reason"`

	// Address is compared ignoring case.
	Address string `json:"address"`

	// Target selects the entry for one target. Empty selects the entry for every target.
	Target string `json:"target,omitempty" flag:"--target the entry for this target (default the general one)"`
}

// RemovedSuppression says whether an entry was removed.
type RemovedSuppression struct {
	Removed bool `json:"removed"`
}

// RemoveSuppression lets messages to an address be sent again.
var RemoveSuppression = Operation[RemoveSuppressionRequest, RemovedSuppression]{
	ID: "remove_suppression", Method: "POST", Path: "/suppressions/remove", Scope: Operate,
	Summary: "Let messages to an address be sent again. What was skipped stays skipped.",
	Why:     "why may messages be sent again?", Confirm: "remove",
	Do: func(ctx context.Context, s *Service, access Access, r RemoveSuppressionRequest) (out RemovedSuppression, err error) {
		if err := access.untenanted("suppressed addresses"); err != nil {
			return out, err
		}
		store, err := s.suppressionStore()
		if err != nil {
			return out, err
		}
		err = store.Remove(ctx, r.Target, r.Address, suppression.Decision{Actor: access.Actor, Reason: r.Reason})
		if errors.Is(err, inbox.ErrNotFound) {
			err = &Problem{Code: CodeNotFound, Detail: "the address is not suppressed, or for another target"}
		}
		return RemovedSuppression{Removed: err == nil}, err
	},
}
