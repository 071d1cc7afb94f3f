package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/config"
)

// AdmitConflictConfig configures [AdmitConflict]. All fields but Now are required.
type AdmitConflictConfig struct {
	Settings *config.Config
	Logger   *slog.Logger

	// Source is the name of the conflict's source.
	Source   string
	Conflict inbox.ID

	Actor, Reason string

	// Now defaults to time.Now.
	Now func() time.Time
}

// AdmitConflict admits the payload of a conflict as a separate event. It opens its own gate and
// uses the routes that the servers were started with.
func AdmitConflict(ctx context.Context, cfg AdmitConflictConfig) (decide.AdmittedConflict, error) {
	return withSource(ctx, cfg.Settings, cfg.Logger, cfg.Now, cfg.Source, cfg.run)
}

func (cfg *AdmitConflictConfig) run(ctx context.Context, a *App, s *config.Source) (out decide.AdmittedConflict, err error) {
	if err := a.startGate(ctx); err != nil {
		return out, err
	}
	return decide.AdmitConflict{
		Pool: a.adminPool, Gate: a.gate, Keyring: a.keys, Clock: a.clock, Source: a.inboxSource(s), Conflict: cfg.Conflict,
		Actor: cfg.Actor, Reason: cfg.Reason,
	}.Run(ctx)
}

// PayloadChanges returns the differences between two payloads of a source with their values, at
// most [replay.MaxChanges]. Members whose names say that they are secret are masked, and so are
// those that the console or the source redacts. settings may be nil.
func PayloadChanges(settings *config.Config, source string, first, other []byte) []replay.Change {
	var redact []string
	if settings != nil {
		redact = append(redact, settings.Console.Redact...)
		if at := slices.IndexFunc(settings.Sources, func(s *config.Source) bool { return s.Name == source }); at >= 0 {
			redact = append(redact, settings.Sources[at].Redact...)
		}
	}
	return changes(first, other, newRedaction(redact))
}
