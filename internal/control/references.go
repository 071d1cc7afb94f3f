package control

import (
	"context"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// FindReferenceRequest is a reference that an operator types.
type FindReferenceRequest struct {
	// Kind is the kind of object: event, effect, dead_letter, refusal, conflict, replay or session.
	Kind string `json:"kind"`

	// Ref is Oncegate's id, or the beginning of it with at least 6 digits. For events, effects and dead letters it may
	// also be source/event-id or the sender's id of the event. For effects and dead letters it may also be the
	// idempotency key of an attempt or the Message-ID of a mail.
	Ref string `json:"ref" searches:"event_id,key"`
}

// FoundReference is the object that a reference identifies.
type FoundReference struct {
	// Kind is the kind in the request.
	Kind string `json:"kind"`

	// ID is Oncegate's id of the only object that matches the reference.
	ID inbox.ID `json:"id"`
}

// FindReference returns the id of the object that a reference identifies.
var FindReference = Operation[FindReferenceRequest, FoundReference]{
	ID: "find_reference", Method: "GET", Path: "/references/{kind}/{ref}", Scope: ReadMetadata,
	Summary: "Give the id of what a reference names: an id, the beginning of one, source/event-id, a sender's id, an idempotency key, or a Message-ID. If several things answer to it, none is chosen.",
	Do: func(ctx context.Context, s *Service, access Access, r FindReferenceRequest) (FoundReference, error) {
		kind := read.Kind(strings.ReplaceAll(r.Kind, "_", " "))
		if !slices.Contains(referredKinds(), kind) {
			return FoundReference{}, invalid("kind %q is unknown; known are event, effect, dead_letter, refusal, conflict, replay, session", r.Kind)
		}
		id, err := s.lister.ForTenant(access.Tenant).Find(ctx, kind, r.Ref)
		if err == nil && read.IsKeyReference(r.Ref) && (kind == read.KindEffect || kind == read.KindDeadLetter) {
			err = s.mayFindByKey(ctx, access, id, r.Ref)
		}
		return FoundReference{Kind: r.Kind, ID: id}, err
	},
}

// mayFindByKey does not find an effect by its key if the key is made of content that the access may not see.
func (s *Service) mayFindByKey(ctx context.Context, access Access, effect inbox.ID, key string) error {
	if access.Scopes.Allow(rowOf(MetadataKey).See) {
		return nil
	}
	found, err := s.lister.Effect(ctx, effect)
	if err == nil && !access.seesKeyOf(found.EventID) {
		err = notFound("effect", key)
	}
	return err
}

// referredKinds returns the kinds of objects that operators refer to.
func referredKinds() []read.Kind {
	return []read.Kind{read.KindEvent, read.KindEffect, read.KindDeadLetter, read.KindRefusal, read.KindConflict, read.KindReplay, read.KindAgentSession}
}
