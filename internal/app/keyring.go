package app

import (
	"context"
	"fmt"
	"log/slog"
)

// openKeyring reads the keys with which bodies and results are sealed. Every heartbeat reads them
// again (see enlist), so a rotation needs no restart.
func (a *App) openKeyring(ctx context.Context) error {
	keys, err := a.settings.Seal.Open(a.cfg.Now)
	if err != nil {
		return fmt.Errorf("opening seal.keyring: %w", err)
	}
	if keys == nil {
		if a.cfg.DevURL != "" {
			return nil // development stores no secrets
		}
		a.log.WarnContext(ctx, "bodies, headers and results are stored in plain: set seal.keyring to have them sealed")
		return nil
	}
	a.keys = keys
	a.log.InfoContext(ctx, "bodies, headers and results are sealed", slog.Int("key", int(keys.Ring().Active().ID)))
	return nil
}
