package app

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/objectstore"
)

// ArchiveConfig says what [NewArchive] needs. Pool is required.
type ArchiveConfig struct {
	// Settings are the section of the configuration.
	Settings *config.Archive
	Pool     *pgxpool.Pool
	Keyring  *seal.Keyring
	Logger   *slog.Logger
	Now      func() time.Time
}

// NewArchive returns the archive of a configuration. Without an archive in the configuration it takes nothing, and says so of what
// another configuration has archived.
func NewArchive(cfg ArchiveConfig) (*archive.Archive, error) {
	out := archive.Config{
		Pool: cfg.Pool, Keyring: cfg.Keyring, Classes: cfg.Settings.Classes, Logger: cfg.Logger, Now: cfg.Now,
		IsMissing: func(err error) bool { return errors.Is(err, objectstore.ErrNotExist) },
	}
	store, err := cfg.Settings.Open()
	if err != nil {
		return nil, fmt.Errorf("archive.%w", err)
	}
	if store != nil {
		out.Store = store
	}
	return archive.New(out)
}

// Archive returns the archive of the process.
func (a *App) Archive() *archive.Archive { return a.archive }

func (a *App) makeArchive() (err error) {
	a.archive, err = NewArchive(ArchiveConfig{Settings: &a.settings.Archive, Pool: a.adminPool, Keyring: a.keys, Logger: a.log, Now: a.cfg.Now})
	return err
}
