package control

import (
	"context"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
)

// FindReferenceRequest is what a person types for a thing.
type FindReferenceRequest struct {
	// Kind is what it should name: event, effect, dead_letter, refusal, conflict, replay or session.
	Kind string `json:"kind"`

	// Ref is Oncegate's id, or the beginning of it with at least 6 digits. Events, effects and dead letters are named by
	// source/event-id and by the sender's id of the event as well, effects and dead letters also by the idempotency key of an attempt or
	// by the Message-ID of a mail.
	Ref string `json:"ref"`
}

// FoundReference is what a reference names.
type FoundReference struct {
	// Kind is that of the request.
	Kind string `json:"kind"`

	// ID is Oncegate's id of the one thing that answers to the reference.
	ID inbox.ID `json:"id"`
}

// FindReference gives the id of what a reference names.
var FindReference = Operation[FindReferenceRequest, FoundReference]{
	ID: "find_reference", Method: "GET", Path: "/references/{kind}/{ref}", Scope: ReadMetadata,
	Summary: "Give the id of what a reference names: an id, the beginning of one, source/event-id, a sender's id, an idempotency key, or a Message-ID. If several things answer to it, none is chosen.",
	Do: func(ctx context.Context, s *Service, access Access, r FindReferenceRequest) (FoundReference, error) {
		kind := inbox.Kind(strings.ReplaceAll(r.Kind, "_", " "))
		if !slices.Contains(referredKinds(), kind) {
			return FoundReference{}, invalid("kind %q is unknown; known are event, effect, dead_letter, refusal, conflict, replay, session", r.Kind)
		}
		id, err := s.lister.ForTenant(access.Tenant).Find(ctx, kind, r.Ref)
		return FoundReference{Kind: r.Kind, ID: id}, err
	},
}

// referredKinds are the kinds of things that people refer to.
func referredKinds() []inbox.Kind {
	return []inbox.Kind{inbox.KindEvent, inbox.KindEffect, inbox.KindDeadLetter, inbox.KindRefusal, inbox.KindConflict, inbox.KindReplay, inbox.KindAgentSession}
}
