package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/app"
)

// AdmitConflictRequest names the payload that is admitted as a separate event.
type AdmitConflictRequest struct {
	Match
	Explained `required:"reason"`

	// ID identifies the conflict.
	ID inbox.ID `json:"id"`
}

// AdmitConflict admits the payload of a conflict as a separate event.
var AdmitConflict = Operation[AdmitConflictRequest, decide.AdmittedConflict]{
	ID: "admit_conflict", Method: "POST", Path: "/conflicts/{id}/admit", Scope: Operate,
	Summary: "Admit the payload of a conflict as a separate event with its own effects. Admitting it again changes nothing.",
	Why:     "why is it a separate event?", Confirm: "admit",
	Do: func(ctx context.Context, s *Service, access Access, r AdmitConflictRequest) (out decide.AdmittedConflict, err error) {
		row, err := s.lister.Conflict(ctx, r.ID)
		if err != nil {
			return out, err
		}
		if err := access.owns(row.Tenant, "conflict", r.ID.String()); err != nil {
			return out, err
		}
		if err := r.check(row.Tag()); err != nil {
			return out, err
		}
		if err := inbox.CheckExplanation(access.Actor, r.Reason); err != nil {
			return out, err
		}
		settings, err := s.settings()
		if err != nil {
			return out, err
		}
		return app.AdmitConflict(ctx, app.AdmitConflictConfig{
			Settings: settings, Logger: s.cfg.Logger, Source: row.Source, Conflict: r.ID, Actor: access.Actor, Reason: r.Reason, Now: s.cfg.Now,
		})
	},
}
