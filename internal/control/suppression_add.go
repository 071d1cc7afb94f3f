package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/suppression"
)

// SuppressionTerms are what the entries of one request have in common.
type SuppressionTerms struct {
	// As is the reason: bounce, complaint, unsubscribe or manual. It defaults to manual.
	As suppression.Reason `json:"as,omitempty" flag:"--as bounce, complaint, unsubscribe or manual"`

	// Target limits the entries to messages of one target. Empty is every target.
	Target string `json:"target,omitempty" flag:"--target only messages of this target (default every target)"`

	// ExpiresAt is when the suppression ends. Without it the suppression does not end.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func (t SuppressionTerms) entries(addresses ...string) ([]suppression.Entry, error) {
	reason, err := suppression.ParseReason(or(string(t.As), string(suppression.Manual)))
	if err != nil {
		return nil, invalid("as %q is %v", t.As, err)
	}
	out := make([]suppression.Entry, len(addresses))
	for i, address := range addresses {
		out[i] = suppression.Entry{Address: address, Target: t.Target, Reason: reason, Expires: t.ExpiresAt}
	}
	return out, nil
}

// AddSuppressionRequest names the address to which no messages are sent.
type AddSuppressionRequest struct {
	Explained `required:"reason"`
	SuppressionTerms

	// Address is compared ignoring case.
	Address string `json:"address"`
}

// AddSuppression suppresses an address.
var AddSuppression = Operation[AddSuppressionRequest, suppression.Added]{
	ID: "add_suppression", Method: "POST", Path: "/suppressions", Scope: Operate,
	Summary: "Send no more messages to an address. Adding it again changes nothing, unless it is suppressed for longer then.",
	Why:     "why is nothing to be sent?",
	Do: func(ctx context.Context, s *Service, access Access, r AddSuppressionRequest) (out suppression.Added, err error) {
		return s.suppress(ctx, access, r.SuppressionTerms, r.Explained, false, r.Address)
	},
}

func (s *Service) suppress(ctx context.Context, access Access, terms SuppressionTerms, why Explained, imported bool, addresses ...string) (out suppression.Added, err error) {
	if err := access.untenanted("suppressed addresses"); err != nil {
		return out, err
	}
	entries, err := terms.entries(addresses...)
	if err != nil {
		return out, err
	}
	store, err := s.suppressionStore()
	if err != nil {
		return out, err
	}
	return store.Add(ctx, entries, suppression.Decision{Actor: access.Actor, Reason: why.Reason, Import: imported})
}

// suppressionStore makes the store of suppressed addresses.
func (s *Service) suppressionStore() (*suppression.Store, error) {
	hashOnly := s.cfg.Suppressions.HashOnly
	if s.cfg.Settings != nil {
		hashOnly = s.cfg.Settings.Suppressions.HashOnly
	}
	return suppression.New(suppression.Config{Pool: s.cfg.Pool, Keyring: s.cfg.Keyring, HashOnly: hashOnly})
}
