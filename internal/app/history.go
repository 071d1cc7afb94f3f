package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/session"
)

// lookEvery is how often the hosts of the database are asked for their timelines: a former primary that still answers
// says nothing of its successor.
const lookEvery = 3 * time.Second

// watchHistory goes on asking all hosts of the database where they stand, and logs once that one is behind.
func (a *App) watchHistory() {
	told := map[string]bool{}
	a.starts = append(a.starts, step{name: "history", run: func(ctx context.Context) error {
		a.every(ctx, "history", lookEvery, func(ctx context.Context) {
			for _, host := range a.sessions.History().Look(ctx, a.adminPool) {
				behind := errors.Is(host.Err, session.ErrBehind) || errors.Is(host.Err, session.ErrOtherSystem)
				if behind && !told[host.Address] {
					a.log.ErrorContext(ctx, "a server is not used", slog.String("host", host.Address), slog.Any("error", host.Err))
				}
				told[host.Address] = behind
			}
		})
		return nil
	}})
}
