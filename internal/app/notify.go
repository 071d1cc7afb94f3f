package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/notification"
)

// lookBound is how long one look at what waits may take.
const lookBound = 20 * time.Second

// makeNotifications has this process tell operators what waits for them, if the configuration says where.
func (a *App) makeNotifications() error {
	n := &a.settings.Notifications
	if n.Source == "" {
		return nil
	}
	reader, err := attention.New(attention.Config{Pool: a.adminPool, Now: a.cfg.Now})
	if err != nil {
		return err
	}
	watcher, err := notification.New(notification.Config{
		Pool: a.adminPool, Reader: reader, Source: n.Source, Kinds: n.Kinds, Fold: n.Fold, Settle: n.Settle, Digest: n.DigestAt(), URL: a.settings.Console.URL,
	})
	if err != nil {
		return err
	}
	a.starts = append(a.starts, step{name: "notifications", run: func(ctx context.Context) error {
		a.readEvery(ctx, "notifications", notification.DefaultEvery, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, lookBound)
			defer cancel()
			emitted, err := watcher.Look(ctx)
			switch {
			case err != nil:
				a.log.WarnContext(ctx, "operators could not be told what waits; the next look tells them", slog.Any("error", err))
			case emitted > 0:
				a.log.InfoContext(ctx, "operators are told what waits", slog.String("source", n.Source), slog.Int("messages", emitted))
			}
		})
		return nil
	}})
	return nil
}
