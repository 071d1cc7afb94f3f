package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// EffectFilter narrows effects. A zero field does not narrow them.
type EffectFilter struct {
	TenantFilter `flag:"--tenant only this tenant"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Type is the event's type, exact.
	Type string `json:"type,omitempty" flag:"--type only this event type"`

	// Route is the name of a route.
	Route string `json:"route,omitempty" flag:"--route only events with an effect of this route"`

	// Target is the name of a target.
	Target string `json:"target,omitempty" flag:"--target only this target"`

	// State is the state of the effects. Reason is why they are in it. It must match exactly.
	State  string `json:"state,omitempty" flag:"--state only this state:"`
	Reason string `json:"reason,omitempty" flag:"--reason only this reason of the state, such as attempts_exhausted"`

	// Since is the earliest time at which the effect was recorded. Until is the end of those times.
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`
	Until time.Time `json:"until,omitzero" flag:"--until only those recorded before"`
}

// read returns the filter for the lists, narrowed to the tenant that the access may see.
func (f *EffectFilter) read(access Access) (out read.EffectFilter, err error) {
	tenant, err := f.narrow(access)
	if err != nil {
		return out, err
	}
	if err := oneOf("state", f.State, EffectStates()); err != nil {
		return out, err
	}
	return read.EffectFilter{
		Source: f.Source, Tenant: tenant, Type: f.Type, Route: f.Route, Target: f.Target, State: f.State, Reason: f.Reason, Since: f.Since, Until: f.Until,
	}, ordered(f.Since, f.Until)
}

// ListEffectsRequest narrows a list of effects. A zero field does not narrow it.
type ListEffectsRequest struct {
	PageRequest
	EffectFilter

	// EventID is the sender's id of the event, exact.
	EventID string `json:"event_id,omitempty" searches:"event_id" flag:"--event-id only this event id of the sender"`

	// Key is an idempotency key of Oncegate, or a Message-ID that Oncegate made. The list has every effect of which an
	// attempt was made under it, including effects of the same meaning and effects that were sent again.
	Key string `json:"key,omitempty" searches:"key" flag:"--key only effects that were attempted under this idempotency key of Oncegate or Message-ID"`
}

// ListEffects lists effects.
var ListEffects = Operation[ListEffectsRequest, read.Page[read.EffectRow]]{
	ID: "list_effects", Method: "GET", Path: "/effects", Scope: ReadMetadata,
	Summary: "List effects, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListEffectsRequest) (read.Page[read.EffectRow], error) {
		return s.effects(ctx, access, r)
	},
}

func (s *Service) effects(ctx context.Context, access Access, r ListEffectsRequest) (page read.Page[read.EffectRow], err error) {
	filter, err := r.read(access)
	if err != nil {
		return page, err
	}
	filter.EventID, filter.Key = r.EventID, r.Key
	page, err = readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.EffectRow], error) {
		filter.Cursor, filter.Limit = at.Cursor, at.Limit
		return s.lister.Effects(ctx, filter)
	})
	if r.Key != "" {
		page.Data = slices.DeleteFunc(page.Data, func(e read.EffectRow) bool { return !access.seesKeyOf(e.EventID) })
	}
	return page, err
}

// GroupEffects counts effects in groups.
var GroupEffects = Operation[EffectFilter, read.Page[read.EffectGroup]]{
	ID: "group_effects", Method: "GET", Path: "/effects/groups", Scope: ReadMetadata,
	Summary: "Count effects by source, route, target, state and reason, the largest group first. Of a source in shadow mode, they are what it would have done.",
	Do: func(ctx context.Context, s *Service, access Access, r EffectFilter) (page read.Page[read.EffectGroup], err error) {
		filter, err := r.read(access)
		if err != nil {
			return page, err
		}
		return s.lister.EffectGroups(ctx, filter)
	},
}

// IDRequest identifies one object by Oncegate's id.
type IDRequest struct {
	// ID is Oncegate's id.
	ID inbox.ID `json:"id"`
}

// Effect is an effect with its attempts.
type Effect struct {
	read.EffectDetail

	// Message is the content of the effect's mail. It is absent for an effect that sends no mail, and for a message that
	// is not rendered yet or was erased.
	Message *Message `json:"message,omitempty"`

	// PayloadHidden says that excerpts of replies, the answer that was fetched or a key made of content were left out because the
	// access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ShowEffect shows one effect with its attempts.
var ShowEffect = Operation[IDRequest, *Effect]{
	ID: "show_effect", Method: "GET", Path: "/effects/{id}", Scope: ReadMetadata,
	Summary: "Show one effect with its attempts.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (*Effect, error) {
		return s.effect(ctx, access, r.ID)
	},
}

// effect reads an effect that the access may see.
func (s *Service) effect(ctx context.Context, access Access, id inbox.ID) (*Effect, error) {
	detail, err := s.ownEffect(ctx, access, id)
	if err != nil {
		return nil, err
	}
	if detail.AttemptRows == nil {
		detail.AttemptRows = []read.AttemptRow{}
	}
	effect := &Effect{EffectDetail: *detail}
	if detail.List != nil { // it sends nothing itself
		return effect, nil
	}
	messages, err := s.lister.Messages(ctx, []inbox.ID{id}, access.Scopes.Allow(ReadPayload))
	if err != nil {
		return nil, err
	}
	effect.Message = access.message(messages, id)
	return effect, nil
}

// ownEffect reads what is known of an effect that the access may see, its content among it.
func (s *Service) ownEffect(ctx context.Context, access Access, id inbox.ID) (*read.EffectDetail, error) {
	detail, err := s.lister.Effect(ctx, id)
	if err == nil {
		err = access.owns(detail.Tenant, "effect", id.String())
	}
	if err != nil {
		return nil, err
	}
	return detail, nil
}

// Message is the message of an effect as it is shown.
type Message struct {
	read.Message

	// PayloadHidden says that there is a message, and that it was left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// message returns the message of an effect, or nil if it has none.
func (a Access) message(messages map[inbox.ID]read.Message, effect inbox.ID) *Message {
	found, ok := messages[effect]
	switch {
	case !ok:
		return nil
	case !a.Scopes.Allow(ReadPayload):
		return &Message{PayloadHidden: true}
	}
	return &Message{Message: found}
}

// ListItemsRequest asks for the items of the list that an effect became.
type ListItemsRequest struct {
	PageRequest
	IDRequest

	// State is the state of the items.
	State string `json:"state,omitempty"`
}

// Item is an item of a list as it is shown.
type Item struct {
	read.EffectRow

	// Message is what the item's mail says. It is absent once the event was erased.
	Message *Message `json:"message,omitempty"`
}

// ListItems lists the items of a list.
var ListItems = Operation[ListItemsRequest, read.Page[Item]]{
	ID: "list_effect_items", Method: "GET", Path: "/effects/{id}/items", Scope: ReadMetadata,
	Summary: "List the items of the list that an effect became, in their order. With read-payload each has its recipient, subject and Message-ID.",
	Do: func(ctx context.Context, s *Service, access Access, r ListItemsRequest) (page read.Page[Item], err error) {
		if err := oneOf("state", r.State, EffectStates()); err != nil {
			return page, err
		}
		if _, err := s.ownEffect(ctx, access, r.ID); err != nil {
			return page, err
		}
		rows, err := readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.EffectRow], error) {
			return s.lister.Items(ctx, r.ID, read.EffectFilter{State: r.State, Cursor: at.Cursor, Limit: at.Limit})
		})
		if err != nil {
			return page, err
		}
		ids := make([]inbox.ID, len(rows.Data))
		for i := range rows.Data {
			ids[i] = rows.Data[i].ID
		}
		messages, err := s.lister.Messages(ctx, ids, access.Scopes.Allow(ReadPayload))
		if err != nil {
			return page, err
		}
		page = read.Page[Item]{Data: make([]Item, len(ids)), HasMore: rows.HasMore, Next: rows.Next, SearchedTo: rows.SearchedTo}
		for i, row := range rows.Data {
			page.Data[i] = Item{EffectRow: row, Message: access.message(messages, row.ID)}
		}
		return page, nil
	},
}

// Shown is the message; an empty one where there is none.
func (m *Message) Shown() Message {
	if m == nil {
		return Message{}
	}
	return *m
}

// ListAttemptsRequest asks for the attempts of an effect.
type ListAttemptsRequest struct {
	IDRequest
}

// Attempt is an attempt at an effect.
type Attempt struct {
	read.AttemptRow

	// PayloadHidden says that the excerpt of the reply was left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ListAttempts lists the attempts of an effect.
var ListAttempts = Operation[ListAttemptsRequest, read.Page[Attempt]]{
	ID: "list_attempts", Method: "GET", Path: "/effects/{id}/attempts", Scope: ReadMetadata,
	Summary: "List the attempts of an effect, in the order in which they were made.",
	Do: func(ctx context.Context, s *Service, access Access, r ListAttemptsRequest) (page read.Page[Attempt], err error) {
		detail, err := s.ownEffect(ctx, access, r.ID)
		if err != nil {
			return page, err
		}
		attempts := make([]Attempt, len(detail.AttemptRows))
		for i, row := range detail.AttemptRows {
			attempts[i] = Attempt{AttemptRow: row}
		}
		return whole(attempts), nil
	},
}

// ListIndeterminatesRequest narrows a list of unknown outcomes. A zero field does not narrow it.
type ListIndeterminatesRequest struct {
	PageRequest
	TenantFilter

	// Source is the name of a source.
	Source string `json:"source,omitempty"`

	// Type is the event's type, exact.
	Type string `json:"type,omitempty"`

	// Route is the name of a route.
	Route string `json:"route,omitempty"`

	// Since is the earliest time at which the effect was recorded.
	Since time.Time `json:"since,omitzero"`
}

// ListIndeterminates lists the effects whose outcome is unknown.
var ListIndeterminates = Operation[ListIndeterminatesRequest, read.Page[read.EffectRow]]{
	ID: "list_indeterminates", Method: "GET", Path: "/indeterminates", Scope: ReadMetadata,
	Summary: "List the effects whose outcome is unknown, newest first.",
	Do: func(ctx context.Context, s *Service, access Access, r ListIndeterminatesRequest) (read.Page[read.EffectRow], error) {
		return s.effects(ctx, access, ListEffectsRequest{
			PageRequest: r.PageRequest,
			EffectFilter: EffectFilter{
				TenantFilter: r.TenantFilter, Source: r.Source, Type: r.Type, Route: r.Route, Since: r.Since, State: string(inbox.EffectIndeterminate),
			},
		})
	},
}

// GroupIndeterminatesRequest narrows the unknown outcomes that are counted. A zero field does not narrow
// them.
type GroupIndeterminatesRequest struct {
	TenantFilter

	// Source is the name of a source.
	Source string `json:"source,omitempty"`

	// Type is the event's type, exact.
	Type string `json:"type,omitempty"`

	// Route is the name of a route. Target is the name of a target.
	Route  string `json:"route,omitempty"`
	Target string `json:"target,omitempty"`

	// Since is the earliest receipt of the event. Until is the end of the receipts.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// GroupIndeterminates counts unknown outcomes by source, route and target.
var GroupIndeterminates = Operation[GroupIndeterminatesRequest, read.Page[read.UnknownGroup]]{
	ID: "group_indeterminates", Method: "GET", Path: "/indeterminates/groups", Scope: ReadMetadata,
	Summary: "Count unknown outcomes by source, route and target, the largest group first.",
	Do: func(ctx context.Context, s *Service, access Access, r GroupIndeterminatesRequest) (page read.Page[read.UnknownGroup], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		if err := ordered(r.Since, r.Until); err != nil {
			return page, err
		}
		return s.lister.UnknownGroups(ctx, read.UnknownFilter{
			Source: r.Source, Type: r.Type, Route: r.Route, Target: r.Target, Tenant: tenant, Since: r.Since, Until: r.Until,
		})
	},
}

// ordered refuses a period that ends before it begins.
func ordered(since, until time.Time) error {
	if !until.IsZero() && !until.After(since) {
		return &Problem{Code: CodeInvalid, Detail: fmt.Sprintf("until %s is not after since %s: nothing could match", until.Format(time.RFC3339), since.Format(time.RFC3339))}
	}
	return nil
}
