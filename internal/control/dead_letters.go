package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// DeadLetterFilter narrows dead letters. A zero field does not narrow them.
type DeadLetterFilter struct {
	TenantFilter `flag:"--tenant only this tenant"`

	// Source is the name of a source.
	Source string `json:"source,omitempty" flag:"--source only this source"`

	// Type is the event's type, exact.
	Type string `json:"type,omitempty" flag:"--type only this event type"`

	// Route is the name of a route.
	Route string `json:"route,omitempty" flag:"--route only this route"`

	// Target is the name of a target.
	Target string `json:"target,omitempty" flag:"--target only this target"`

	// Reason is why an effect is dead or why its last attempt failed. For events, it is unusable or beyond_retention.
	Reason string `json:"reason,omitempty" flag:"--dead-reason only this reason, such as attempts_exhausted; for events: unusable, beyond_retention"`

	// ErrorClass is the class of the error that prevented the effect.
	ErrorClass read.ErrorClass `json:"error_class,omitempty" flag:"--error-class only this class of errors:"`

	// EventID is the sender's, exact.
	EventID string `json:"event_id,omitempty" searches:"event_id" flag:"--event-id only this event id of the sender"`

	// Text is searched for in the replies of the last attempts, ignoring case. It needs read-payload.
	Text string `json:"text,omitempty" searches:"content" flag:"--text only where a message of the last attempt contains this"`

	// Since is the earliest receipt of the event. Until is the end of the receipts.
	Since time.Time `json:"since,omitzero" flag:"--since only those received since"`
	Until time.Time `json:"until,omitzero" flag:"--until only those received before"`
}

// filter checks the filter and narrows it to what the access may see.
func (f *DeadLetterFilter) filter(access Access) (out read.DeadFilter, err error) {
	tenant, err := f.narrow(access)
	if err != nil {
		return out, err
	}
	if f.ErrorClass != "" && !slices.Contains(read.ErrorClasses(), f.ErrorClass) {
		return out, invalid("error_class %q is unknown; known are %v", f.ErrorClass, read.ErrorClasses())
	}
	if _, known := reasons.Reason(f.Reason).Known(); f.Reason != "" && !known && !slices.Contains(Admissions(), f.Reason) {
		return out, invalid("reason %q is no reason; the groups of dead letters show those there are", f.Reason)
	}
	return read.DeadFilter{
		Source: f.Source, Type: f.Type, Route: f.Route, Target: f.Target, Reason: f.Reason, ErrorClass: f.ErrorClass, EventID: f.EventID,
		Text: f.Text, Tenant: tenant, Since: f.Since, Until: f.Until,
	}, ordered(f.Since, f.Until)
}

// ListDeadLettersRequest asks for a page of dead letters.
type ListDeadLettersRequest struct {
	PageRequest
	DeadLetterFilter
}

// DeadLetter is a dead letter in a list.
type DeadLetter struct {
	read.DeadRow

	// PayloadHidden says that the reply of the last attempt was left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ListDeadLetters lists dead letters.
var ListDeadLetters = Operation[ListDeadLettersRequest, read.Page[DeadLetter]]{
	ID: "list_dead_letters", Method: "GET", Path: "/dead-letters", Scope: ReadMetadata,
	Summary: "List dead letters, newest first: effects that did not happen and will not by themselves, and events that cannot be used.",
	Do: func(ctx context.Context, s *Service, access Access, r ListDeadLettersRequest) (page read.Page[DeadLetter], err error) {
		filter, err := r.filter(access)
		if err != nil {
			return page, err
		}
		rows, err := readPage(r.PageRequest, func(at read.PageRequest) (read.Page[read.DeadRow], error) {
			return s.lister.Dead(ctx, filter, at)
		})
		return mapPage(rows, func(row read.DeadRow) DeadLetter { return DeadLetter{DeadRow: row} }), err
	},
}

// GroupDeadLetters counts dead letters in groups.
var GroupDeadLetters = Operation[DeadLetterFilter, read.Page[read.DeadGroup]]{
	ID: "group_dead_letters", Method: "GET", Path: "/dead-letters/groups", Scope: ReadMetadata,
	Summary: "Count dead letters by source, route, reason and the target's code, the largest group first.",
	Do: func(ctx context.Context, s *Service, access Access, r DeadLetterFilter) (page read.Page[read.DeadGroup], err error) {
		filter, err := r.filter(access)
		if err != nil {
			return page, err
		}
		return s.lister.DeadGroups(ctx, filter)
	},
}

// DeadLetterDetail is a dead letter in full: an effect, or an event that cannot be processed.
type DeadLetterDetail struct {
	// Effect is set if the dead letter is an effect.
	Effect *Effect `json:"effect,omitempty"`

	// Event is set if the dead letter is an event.
	Event *read.EventDetail `json:"event,omitempty"`
}

// Tag names the state of the effect or the event, for [Match].
func (d *DeadLetterDetail) Tag() string {
	if d.Effect != nil {
		return d.Effect.Tag()
	}
	return d.Event.Tag()
}

// ShowDeadLetter shows one dead letter.
var ShowDeadLetter = Operation[IDRequest, *DeadLetterDetail]{
	ID: "show_dead_letter", Method: "GET", Path: "/dead-letters/{id}", Scope: ReadMetadata,
	Summary: "Show one dead letter: an effect, or an event that nothing can be done for.",
	Do: func(ctx context.Context, s *Service, access Access, r IDRequest) (*DeadLetterDetail, error) {
		return s.deadLetter(ctx, access, r.ID)
	},
}

// deadLetter reads a dead letter that the access may see.
func (s *Service) deadLetter(ctx context.Context, access Access, id inbox.ID) (*DeadLetterDetail, error) {
	effect, err := s.effect(ctx, access, id)
	switch {
	case err == nil && effect.State != string(inbox.EffectDead):
		return nil, &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("effect %s is %s, not dead; show it as an effect", effect.ID, effect.State)}
	case err == nil:
		return &DeadLetterDetail{Effect: effect}, nil
	case !errors.Is(err, inbox.ErrNotFound):
		return nil, err
	}
	event, err := s.event(ctx, access, id.String())
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return nil, &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("neither an effect nor an event has the id %s", id)}
	case err != nil:
		return nil, err
	case event.Admission != "unusable" && event.Admission != "beyond_retention":
		return nil, &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("event %s was admitted as %s: it is no dead letter; show it as an event", event.ID, event.Admission)}
	}
	return &DeadLetterDetail{Event: event}, nil
}

// checkNamed compares If-Match with the state of the one effect or event that a decision names.
func (s *Service) checkNamed(ctx context.Context, access Access, m Match, ids []inbox.ID) error {
	if m.IfMatch == "" {
		return nil
	}
	if err := m.one(ids); err != nil {
		return err
	}
	effect, err := s.ownEffect(ctx, access, ids[0])
	if err == nil {
		return m.check(effect.Tag())
	}
	if !errors.Is(err, inbox.ErrNotFound) {
		return err
	}
	event, err := s.event(ctx, access, ids[0].String())
	if err != nil {
		return err
	}
	return m.check(event.Tag())
}
