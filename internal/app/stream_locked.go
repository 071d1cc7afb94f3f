package app

import (
	"context"
	"log/slog"

	"github.com/oncegate/oncegate/inbox"
)

// streamLocked logs that another session keeps a stream locked, and which session to end.
func (a *App) streamLocked(ctx context.Context, s inbox.LockedStream) {
	attrs := []slog.Attr{
		slog.String("source", s.Source), slog.String("route", s.Route), slog.Int64("stream", s.ID), slog.Time("since", s.Since),
	}
	attrs = append(attrs, s.Backend.Attrs()...)
	a.log.LogAttrs(ctx, slog.LevelWarn, "a stream is locked by another session: its effects wait until that ends, or is ended with pg_terminate_backend", attrs...)
}
