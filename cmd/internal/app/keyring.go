package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// keyringEvery is how soon a rotated keyring takes effect in a process that has
// not met the new key before.
const keyringEvery = time.Minute

// openKeyring reads the keys under which bodies and results are sealed, and goes
// on reading them: a rotation needs no restart.
func (a *App) openKeyring(ctx context.Context) error {
	keys, err := a.settings.Seal.Open(a.cfg.Now)
	if err != nil {
		return fmt.Errorf("opening seal.keyring: %w", err)
	}
	if keys == nil {
		if a.cfg.DevURL != "" {
			return nil // development keeps no secrets
		}
		a.log.WarnContext(ctx, "bodies, headers and results are stored in plain: set seal.keyring to have them sealed")
		return nil
	}
	a.keys = keys
	a.log.InfoContext(ctx, "bodies, headers and results are sealed", slog.Int("key", int(keys.Ring().Active().ID)))
	a.starts = append(a.starts, step{name: "keyring", run: func(ctx context.Context) error {
		a.every(ctx, "keyring", keyringEvery, func(ctx context.Context) {
			before := keys.Ring().Active().ID
			if err := keys.Reload(); err != nil {
				a.log.ErrorContext(ctx, "reading the keyring again failed; the keys stay as they were", slog.Any("error", err))
			} else if now := keys.Ring().Active().ID; now != before {
				a.log.InfoContext(ctx, "another key seals from now on", slog.Int("key", int(now)))
			}
		})
		return nil
	}})
	return nil
}
