package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/suppression"
)

// ListSuppressionsRequest narrows a list of suppressed addresses. A zero field does not narrow it.
type ListSuppressionsRequest struct {
	PageRequest

	// Reason is why the addresses are suppressed.
	Reason string `json:"reason,omitempty" flag:"--as only those suppressed as bounce, complaint, unsubscribe or manual"`

	// Target selects only the entries of this target, without those for every target.
	Target string `json:"target,omitempty" flag:"--target only those that hold for this target alone"`

	// Since is the earliest creation.
	Since time.Time `json:"since,omitzero" flag:"--since only those suppressed since"`
}

// Suppression is an address to which no message is sent.
type Suppression struct {
	suppression.Row

	// PayloadHidden says that the address and its hash were left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ListSuppressions lists suppressed addresses.
var ListSuppressions = Operation[ListSuppressionsRequest, read.Page[Suppression]]{
	ID: "list_suppressions", Method: "GET", Path: "/suppressions", Scope: ReadMetadata,
	Summary: "List the addresses to which no message is sent, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListSuppressionsRequest) (page read.Page[Suppression], err error) {
		if err := access.untenanted("suppressed addresses"); err != nil {
			return page, err
		}
		if r.Reason != "" {
			if _, err := suppression.ParseReason(r.Reason); err != nil {
				return page, invalid("reason %q is %v", r.Reason, err)
			}
		}
		rows, err := readPage(r.PageRequest, func(at read.PageRequest) (read.Page[suppression.Row], error) {
			return s.suppressions.List(ctx, suppression.Filter{
				Reason: suppression.Reason(r.Reason), Target: r.Target, Since: r.Since, Cursor: at.Cursor, Limit: at.Limit,
			})
		})
		return mapPage(rows, func(row suppression.Row) Suppression { return Suppression{Row: row} }), err
	},
}

// CheckSuppressionRequest asks whether messages to an address are sent. It is a POST, so that the address is not in
// logs of URLs.
type CheckSuppressionRequest struct {
	// Address is a mail address.
	Address string `json:"address" searches:"address"`

	// Target is the name of a target. Empty checks only the entries for every target.
	Target string `json:"target,omitempty" flag:"--target also look among those that hold for this target alone"`
}

// SuppressionCheck says whether messages to an address are sent.
type SuppressionCheck struct {
	// Suppressed says that no messages are sent.
	Suppressed bool `json:"suppressed"`

	// Entry is the entry that suppresses them. It is nil if messages are sent.
	Entry *Suppression `json:"entry,omitempty"`
}

// CheckSuppression says whether an address is suppressed.
var CheckSuppression = Operation[CheckSuppressionRequest, *SuppressionCheck]{
	ID: "check_suppression", Method: "POST", Path: "/suppressions/check", Scope: ReadPayload, Reads: true,
	Summary: "Say whether messages of a target to an address are sent. It changes nothing.",
	Do: func(ctx context.Context, s *Service, access Access, r CheckSuppressionRequest) (*SuppressionCheck, error) {
		if err := access.untenanted("suppressed addresses"); err != nil {
			return nil, err
		}
		if _, err := suppression.Normalize(r.Address); err != nil {
			return nil, invalid("address: %v", err)
		}
		entry, err := s.suppressions.Check(ctx, r.Target, r.Address)
		out := &SuppressionCheck{Suppressed: entry != nil}
		if entry != nil {
			out.Entry = &Suppression{Row: *entry}
		}
		return out, err
	},
}
