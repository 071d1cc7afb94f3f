package control

import (
	"context"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
)

// OperationReference names one call of an operation.
type OperationReference struct {
	// Source is the name of the source of operations.
	Source string `json:"source"`

	// Credential is the name of the credential that made the call.
	Credential string `json:"credential"`

	// Key is the part of the call's key after the credential: the operation, a colon, and the caller's key. It may also
	// be Oncegate's id of the event.
	Key string `json:"key" searches:"event_id"`
}

// OperationOutcome is the outcome of a call of an operation.
type OperationOutcome struct {
	operation.EventOutcome

	// Source, Credential and EventID identify the recorded call.
	Source     string `json:"source"`
	Credential string `json:"credential"`
	EventID    string `json:"event_id"`

	// Operation is the name of the operation.
	Operation string `json:"operation"`

	// AtRest says that no effect will make another attempt without a decision.
	AtRest bool `json:"at_rest"`

	// PayloadHidden says that results and replies of targets were left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// ShowOperation shows the outcome of a call of an operation.
var ShowOperation = Operation[OperationReference, *OperationOutcome]{
	ID: "show_operation", Method: "GET", Path: "/operations/{source}/{credential}/{key}", Scope: ReadMetadata,
	Summary: "Show the outcome of a call of an operation.",
	Do: func(ctx context.Context, s *Service, access Access, r OperationReference) (*OperationOutcome, error) {
		ref := r.Source + "/" + r.Credential + ":" + r.Key
		if _, err := inbox.ParseID(r.Key); err == nil {
			ref = r.Key
		}
		event, err := s.event(ctx, access, ref)
		if err != nil {
			return nil, err
		}
		if event.Source != r.Source || !strings.HasPrefix(event.EventID, r.Credential+":") {
			return nil, notFound("operation", r.Source+"/"+r.Credential+"/"+r.Key)
		}
		outcome, err := s.operations.Outcome(ctx, event.ID)
		if err != nil {
			return nil, err
		}
		out := &OperationOutcome{
			EventOutcome: *outcome, Source: event.Source, Credential: r.Credential, EventID: event.EventID, Operation: event.Type, AtRest: outcome.AtRest,
		}
		if out.Effects == nil {
			out.Effects = []operation.EffectOutcome{}
		}
		return out, nil
	},
}
