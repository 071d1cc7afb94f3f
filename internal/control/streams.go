package control

import (
	"context"
	"slices"

	"github.com/oncegate/oncegate/inbox/read"
)

// ListStreamsRequest narrows a list of streams. A zero field does not narrow it.
type ListStreamsRequest struct {
	PageRequest
	TenantFilter `flag:"--tenant only streams with an effect of this tenant"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Route is the name of a route.
	Route string `json:"route,omitempty" flag:"--route only this route"`

	// Key selects the streams with exactly this sequence key, even if the key was erased.
	Key string `json:"key,omitempty" searches:"sequence_key" flag:"--key only the stream with exactly this sequence key, even if the key was erased"`

	// Blocked selects streams that are blocked by an effect in a resting state. Gap selects streams that wait for a
	// missing number. Blocked and Gap together select the streams for which one of them is true.
	Blocked bool `json:"blocked,omitempty" flag:"--blocked only streams that a dead or indeterminate effect blocks"`
	Gap     bool `json:"gap,omitempty" flag:"--gap only those that wait for a missing number"`
}

func (r *ListStreamsRequest) filter(access Access) (read.StreamFilter, error) {
	tenant, err := r.narrow(access)
	return read.StreamFilter{Source: r.Source, Route: r.Route, Tenant: tenant, Key: r.Key, Blocked: r.Blocked, Gap: r.Gap}, err
}

// Stream is a stream in a list.
type Stream struct {
	read.StreamRow

	// PayloadHidden says that the key was left out because the access lacks read-payload: the key is a value of
	// payloads.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ListStreams lists streams.
var ListStreams = Operation[ListStreamsRequest, read.Page[Stream]]{
	ID: "list_streams", Method: "GET", Path: "/streams", Scope: ReadMetadata,
	Summary: "List the streams of ordered routes, newest first: how far each is, and what it waits for.",
	Do: func(ctx context.Context, s *Service, access Access, r ListStreamsRequest) (page read.Page[Stream], err error) {
		filter, err := r.filter(access)
		if err != nil {
			return page, err
		}
		rows, err := readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.StreamRow], error) {
			filter.Cursor, filter.Limit = at.Cursor, at.Limit
			return s.lister.Streams(ctx, filter)
		})
		return mapPage(rows, func(row read.StreamRow) Stream { return Stream{StreamRow: row} }), err
	},
}

// StreamReference names a stream.
type StreamReference struct {
	// Ref is Oncegate's id of the stream, or source/route/key.
	Ref string `json:"ref" searches:"sequence_key/path"`
}

// StreamDetail is a stream with its next effects.
type StreamDetail struct {
	read.StreamDetail

	// PayloadHidden says that the key was left out because the access lacks read-payload: the key is a value of
	// payloads.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ShowStream shows one stream.
var ShowStream = Operation[StreamReference, *StreamDetail]{
	ID: "show_stream", Method: "GET", Path: "/streams/{ref}", Scope: ReadMetadata,
	Summary: "Show what one stream waits for, and the next effects of it.",
	Do: func(ctx context.Context, s *Service, access Access, r StreamReference) (*StreamDetail, error) {
		detail, err := s.lister.Stream(ctx, r.Ref)
		if err != nil {
			return nil, err
		}
		out := &StreamDetail{StreamDetail: *detail}
		if access.Tenant != "" {
			theirs, err := s.lister.StreamHasTenant(ctx, detail.ID, access.Tenant)
			if err != nil {
				return nil, err
			}
			if !theirs {
				return nil, notFound("stream", r.Ref)
			}
			out.narrow(access.Tenant)
		}
		if out.Waiting == nil {
			out.Waiting = []read.StreamEffect{}
		}
		return out, nil
	},
}

// narrow removes the effects of other tenants.
func (d *StreamDetail) narrow(tenant string) {
	d.Waiting = slices.DeleteFunc(d.Waiting, func(e read.StreamEffect) bool { return e.Tenant != tenant })
	if e := d.InFlightEffect; e == nil || e.Tenant != tenant {
		d.InFlight, d.InFlightEffect = nil, nil
	}
	if e := d.BlockedByEffect; e == nil || e.Tenant != tenant {
		d.BlockedBy, d.BlockedByEffect = nil, nil
	}
}

// ListUndecidedRequest narrows the effects that are held for an operator. A zero field does not narrow them.
type ListUndecidedRequest struct {
	TenantFilter

	// Source is the name of a source.
	Source string `json:"source,omitempty"`

	// Route is the name of a route.
	Route string `json:"route,omitempty"`

	// Key selects the effects with exactly this sequence key.
	Key string `json:"key,omitempty" searches:"sequence_key"`

	// Stream selects the effects of the stream with this id.
	Stream int64 `json:"stream,omitempty"`

	// Limit is the largest number of rows, from 1 to 1,000. 0 is 50.
	Limit int `json:"limit,omitempty"`

	// After is the cursor of the previous page, its next. It is only valid with the same filter.
	After string `json:"after,omitempty"`
}

// Undecided is an effect that is held for an operator.
type Undecided struct {
	read.Undecided

	// PayloadHidden says that the key was left out because the access lacks read-payload: the key is a value of
	// payloads.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ListUndecided lists the effects that are held for an operator.
var ListUndecided = Operation[ListUndecidedRequest, read.Page[Undecided]]{
	ID: "list_undecided_effects", Method: "GET", Path: "/undecided-effects", Scope: ReadMetadata,
	Summary: "List the effects that are held for a person, because their place in a sequence is not known or is taken; the oldest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListUndecidedRequest) (page read.Page[Undecided], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		limit, err := PageRequest{Limit: r.Limit}.limit()
		if err != nil {
			return page, err
		}
		rows, err := s.lister.Undecided(ctx, read.StreamFilter{Source: r.Source, Route: r.Route, Tenant: tenant, Key: r.Key, Cursor: r.After, Limit: limit}, r.Stream)
		return mapPage(rows, func(row read.Undecided) Undecided { return Undecided{Undecided: row} }), err
	},
}
