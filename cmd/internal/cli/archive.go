package cli

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// archive returns the archive of the configuration. Without a configuration, it is one that has no store.
func (s *shell) archive(pool *pgxpool.Pool, keys *seal.Keyring) (*archive.Archive, error) {
	settings := new(config.Archive)
	if _, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, DatabaseOnly: true}); err == nil {
		cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, DatabaseOnly: true, Archive: true})
		if err != nil {
			return nil, errorf(errorcode.Config, "%v", err)
		}
		settings = &cfg.Archive
	}
	return app.NewArchive(app.ArchiveConfig{Settings: settings, Pool: pool, Keyring: keys, Now: time.Now})
}
