package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
)

// database returns the database that commands use: the one of the environment or the configuration,
// otherwise the one of the `oncegate dev` that runs in this directory.
func (s *shell) database() (config.Database, error) {
	cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, DatabaseOnly: true, KeyringLater: true})
	if err == nil {
		return cfg.Database, nil
	}
	if s.configFile == "" && s.env("DATABASE_URL") == "" && s.env("DATABASE_URL_FILE") == "" {
		if state, ok := s.readDevState(); ok {
			return config.Database{URL: state.DatabaseURL, Schema: state.Schema}, nil
		}
		if s.env("ONCEGATE_CONFIG") == "" {
			return config.Database{}, errorf(errorcode.DatabaseMissing, "no database: set DATABASE_URL, or start ./scripts/run and run this from the same directory")
		}
	}
	return config.Database{}, err
}

// keyring returns the keyring, or nil if nothing is sealed.
func (s *shell) keyring() (*seal.Keyring, error) {
	cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, Database: s.databaseName, DatabaseOnly: true})
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // without a configuration it is the database of `oncegate dev`, which seals nothing
	}
	keys, err := cfg.Seal.Open(nil)
	if err != nil {
		return nil, errorf(errorcode.KeyMissing, "seal.keyring: %v", err)
	}
	return keys, nil
}

// fewConnections is enough for commands that run one query after another.
const fewConnections = 2

// withPool calls do with a pool and the keyring.
func (s *shell) withPool(ctx context.Context, connections int32, do func(*pgxpool.Pool, *seal.Keyring) error) error {
	pool, err := s.openPoolOf(ctx, connections)
	if err != nil {
		return err
	}
	defer pool.Close()
	keys, err := s.keyring()
	if err != nil {
		return err
	}
	return do(pool, keys)
}

func (s *shell) openPool(ctx context.Context) (*pgxpool.Pool, error) {
	return s.openPoolOf(ctx, fewConnections)
}

func (s *shell) openPoolOf(ctx context.Context, connections int32) (*pgxpool.Pool, error) {
	if names := s.databaseNames(); len(names) > 1 {
		return nil, usagef("which database? add --database; those of the configuration are %s", strings.Join(names, ", "))
	}
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	var guard session.Guard
	pool, err := session.OpenPool(ctx, db.URL, db.Schema, session.PoolAdmin, connections, session.GuardedBy(&guard))
	if err != nil {
		return nil, errorf(errorcode.DatabaseAddress, "%v", err)
	}
	// Report an unreachable database at once instead of trying a second time.
	var connect *pgconn.ConnectError
	if err := guard.Prove(ctx, pool); errors.Is(err, session.ErrShared) || errors.As(err, &connect) {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
