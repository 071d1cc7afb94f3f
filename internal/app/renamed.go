package app

import (
	"context"
	"log/slog"

	"github.com/oncegate/oncegate/internal/config"
)

// tellRenamed logs which sources and routes this start renamed, and which have another name in the
// database than in this configuration.
func (a *App) tellRenamed(ctx context.Context) {
	for _, s := range a.settings.Sources {
		row := a.sources[s.Name]
		a.tellName(ctx, "source", s.Name, row.Name, row.Renamed)
		for _, r := range s.Routes {
			route := row.Routes[r.Name]
			a.tellName(ctx, "route", s.Name+"/"+r.Name, row.Name+"/"+route.Name, route.Renamed)
		}
	}
}

func (a *App) tellName(ctx context.Context, what, configured, stored, renamed string) {
	switch {
	case renamed != "":
		a.log.InfoContext(ctx, "renamed", slog.String("what", what), slog.String("from", renamed), slog.String("into", configured))
	case configured != stored:
		a.log.WarnContext(ctx, "this configuration is older than a renaming: the process works for the new name. "+
			"If you mean a new one by this name, configure the renamed one as well and write previous_names: [] here",
			slog.String("what", what), slog.String("name", configured), slog.String("renamed_to", stored))
	}
}

// keySource returns the name of a source as keys see it: the name under which it was first
// registered, so that the keys stay the same.
func (a *App) keySource(s *config.Source) string {
	if row, ok := a.sources[s.Name]; ok && row.KeyName != "" {
		return row.KeyName
	}
	return s.Name
}
