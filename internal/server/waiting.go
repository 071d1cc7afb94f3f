package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/sleep"
)

// backEvery is how often a process that waits for the database asks whether it is back.
const backEvery = time.Second

// openWaiting opens a process that takes deliveries into the buffer until the database is back. why is the error of the ordinary
// start, which it returns if the process cannot wait.
func openWaiting(ctx context.Context, cfg app.Config, why error) (*app.App, error) {
	a, err := app.OpenWaiting(ctx, cfg)
	if err != nil {
		if cfg.Settings.Buffer.On() {
			cfg.Logger.WarnContext(ctx, "the process cannot take deliveries into the buffer", slog.Any("error", err))
		}
		return nil, why
	}
	cfg.Logger.WarnContext(ctx, "the database is away: deliveries go to the buffer, and everything else is answered with 503, until it is back", slog.Any("error", why))
	return a, nil
}

// startWaiting starts a process that waits for the database. Its private listener has no API and no console.
func (s *Server) startWaiting(ctx context.Context, first *generation) error {
	first.end = func() {}
	err := s.reloadable()
	if err == nil {
		err = first.app.Assemble(ctx, app.Parts{Listen: s.listens})
	}
	if err != nil {
		return errors.Join(err, s.drain(ctx))
	}
	return first.app.Start(ctx)
}

// reloadable returns an error unless the process can read its configuration again, which it does when the database is back.
func (s *Server) reloadable() error {
	if s.reloads.cfg.Load == nil {
		return errors.New("a process that waits for the database must be able to reload")
	}
	return nil
}

// followWaiting reloads the configuration when the database is back, until an App with the database has taken over.
func (s *Server) followWaiting(ctx context.Context) {
	for ctx.Err() == nil && s.lead().app.Waiting() {
		if sleep.For(ctx, backEvery) != nil {
			return
		}
		if s.lead().app.DatabaseBack(ctx) {
			_ = s.Reload(ctx) // the log says why it failed
		}
	}
}
