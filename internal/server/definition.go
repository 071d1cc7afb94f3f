package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// revisionEvery is how often a process looks whether a source of the database has changed.
	revisionEvery = time.Second

	// revisionAgain is how long a process waits after a reload that could not be applied.
	revisionAgain = 30 * time.Second

	// revisionRest is the longest wait after a reload that was applied. A process rests for as long as a reload took, because with
	// 10,000 sources one takes seconds, and one could follow the other.
	revisionRest = 10 * time.Second
)

// followDefinitions reloads the configuration when the sources of the database have changed, until ctx ends.
func (s *Server) followDefinitions(ctx context.Context) {
	s.announce(ctx)
	now := time.Now //nolint:forbidigo // it measures work, for which the clock of a test does not pass
	for pause := revisionEvery; sleep.For(ctx, pause) == nil; {
		pause = revisionEvery
		revision, err := s.lead().app.Revision(ctx)
		if err != nil || revision == s.lead().settings.Revision {
			continue // a database that cannot be reached is logged by what needs it
		}
		began := now()
		_, err = s.reload(ctx, control.ReloadRequest{}, "a changed source", nil)
		if pause = min(max(pause, now().Sub(began)), revisionRest); err != nil {
			pause = revisionAgain
		}
	}
}

// announce records which revision of the sources of the database this process serves. If that fails, the next reload tries again.
func (s *Server) announce(ctx context.Context) {
	if s.reloads.cfg.Load == nil {
		return
	}
	g := s.lead()
	if err := g.app.AnnounceRevision(ctx); err != nil && ctx.Err() == nil {
		g.log.WarnContext(ctx, "this process could not announce which sources of the database it serves", slog.Any("error", err))
	}
}

// checkDefinition returns the warnings about a source, or why it cannot be added to the configuration. It reads the configuration
// without the other sources of the database, because reading 10,000 of them takes seconds.
func (s *Server) checkDefinition(ctx context.Context, d config.Definition) ([]string, error) {
	cfg := s.cfg
	settings, err := s.reloads.cfg.LoadWith(d)
	if err == nil {
		cfg.Settings, cfg.Logger = settings, slog.New(slog.DiscardHandler)
		err = app.Check(ctx, cfg)
	}
	if err != nil {
		return nil, &control.Problem{Code: control.CodeInvalid, Detail: s.reloads.cfg.Explain(err)}
	}
	return settings.WarningsOf(d.Name), nil
}
