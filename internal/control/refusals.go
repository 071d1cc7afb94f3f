package control

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// RefusalFilter narrows refused deliveries. A zero field does not narrow them.
type RefusalFilter struct {
	TenantFilter `flag:"--tenant only this tenant"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Cause is why they were refused. It must match exactly.
	Cause string `json:"cause,omitempty" flag:"--cause only this cause, such as mismatch"`

	// Peer is where they came from: an IPv4 address, or the /64 network of an IPv6 address.
	Peer string `json:"peer,omitempty" flag:"--peer only from this IPv4 address or IPv6 network"`

	// Since is the earliest receipt.
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`
}

// filter returns the filter for a caller.
func (f *RefusalFilter) filter(access Access) (read.RefusalFilter, error) {
	tenant, err := f.narrow(access)
	if err == nil {
		err = oneOf("cause", f.Cause, receiver.Causes())
	}
	return read.RefusalFilter{Source: f.Source, Tenant: tenant, Cause: f.Cause, Peer: f.Peer, Since: f.Since}, err
}

// ListRefusalsRequest narrows a list of refused deliveries. A zero field does not narrow it.
type ListRefusalsRequest struct {
	PageRequest
	RefusalFilter

	// Whole selects the refusals whose headers and body were kept.
	Whole bool `json:"whole,omitempty" flag:"--whole only those kept whole"`
}

// ListRefusals lists refused deliveries.
var ListRefusals = Operation[ListRefusalsRequest, read.Page[read.RefusalRow]]{
	ID: "list_refusals", Method: "GET", Path: "/refusals", Scope: ReadMetadata,
	Summary: "List refused deliveries, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListRefusalsRequest) (page read.Page[read.RefusalRow], err error) {
		filter, err := r.filter(access)
		if err != nil {
			return page, err
		}
		return readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.RefusalRow], error) {
			filter.Whole, filter.Cursor, filter.Limit = r.Whole, at.Cursor, at.Limit
			return s.lister.Refusals(ctx, filter)
		})
	},
}

// GroupRefusals counts refused deliveries in groups.
var GroupRefusals = Operation[RefusalFilter, read.Page[read.RefusalGroup]]{
	ID: "group_refusals", Method: "GET", Path: "/refusals/groups", Scope: ReadMetadata,
	Summary: "Count the refused deliveries that are kept by source, cause and peer, the largest group first, and say which are acknowledged.",
	Do: func(ctx context.Context, s *Service, access Access, r RefusalFilter) (page read.Page[read.RefusalGroup], err error) {
		filter, err := r.filter(access)
		if err != nil {
			return page, err
		}
		return s.lister.RefusalGroups(ctx, filter)
	},
}

// Refusal is a refused delivery.
type Refusal struct {
	read.RefusalDetail

	// PayloadHidden says that the values of the headers were left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ShowRefusal shows one refused delivery.
var ShowRefusal = Operation[IDRequest, *Refusal]{
	ID: "show_refusal", Method: "GET", Path: "/refusals/{id}", Scope: ReadMetadata,
	Summary: "Show one refused delivery with its diagnosis and its headers, but without its body.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (*Refusal, error) {
		detail, err := s.refusal(ctx, access, r.ID)
		if err != nil {
			return nil, err
		}
		return &Refusal{RefusalDetail: *detail}, nil
	},
}

// refusal reads a refusal that the access may see.
func (s *Service) refusal(ctx context.Context, access Access, id inbox.ID) (*read.RefusalDetail, error) {
	detail, err := s.lister.Refusal(ctx, id)
	if err != nil {
		return nil, err
	}
	return detail, access.owns(detail.Tenant, "refusal", id.String())
}

// ReadRefusalBody returns the exact bytes of the body of a refused delivery.
var ReadRefusalBody = Operation[IDRequest, Content]{
	ID: "read_refusal_body", Method: "GET", Path: "/refusals/{id}/body", Scope: ReadPayload,
	Summary: "Give the exact bytes of the body of a refused delivery that was kept whole.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (Content, error) {
		detail, err := s.refusal(ctx, access, r.ID)
		if err != nil {
			return Content{}, err
		}
		if !detail.Whole {
			return Content{}, &Problem{Code: CodeNotFound, Detail: "refusal " + r.ID.String() + " was kept without content: only deliveries whose signature did not match are kept whole"}
		}
		return s.revealed(ctx, access, "refusal/"+r.ID.String(), Content{Name: "refusal-" + r.ID.String() + ".bin", Bytes: detail.Body})
	},
}
