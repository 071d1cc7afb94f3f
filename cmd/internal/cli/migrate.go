package cli

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/config"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/migrations"
)

// database finds the database a command asks: the environment's or the
// configuration's, else the one of the `oncegate dev` that runs from here.
func (s *shell) database() (config.Database, error) {
	cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, DatabaseOnly: true, KeyringLater: true})
	if err == nil {
		return cfg.Database, nil
	}
	if s.configFile == "" && s.env("DATABASE_URL") == "" && s.env("DATABASE_URL_FILE") == "" {
		if state, ok := s.readDevState(); ok {
			return config.Database{URL: state.DatabaseURL, Schema: state.Schema}, nil
		}
		if s.env("ONCEGATE_CONFIG") == "" {
			return config.Database{}, usagef("no database: set DATABASE_URL, or start ./scripts/run and run this from the same directory")
		}
	}
	return config.Database{}, err
}

// keyring opens what is sealed; nil where nothing is.
func (s *shell) keyring() (*seal.Keyring, error) {
	cfg, err := config.Load(config.Options{File: s.configFile, Environ: s.environ, DatabaseOnly: true})
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // without a configuration the database of `oncegate dev` is asked: nothing is sealed there
	}
	keys, err := cfg.Seal.Open(nil)
	if err != nil {
		return nil, usagef("seal.keyring: %v", err)
	}
	return keys, nil
}

func (s *shell) openPool(ctx context.Context) (*pgxpool.Pool, error) { return s.openPoolOf(ctx, 2) }

func (s *shell) openPoolOf(ctx context.Context, connections int32) (*pgxpool.Pool, error) {
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	pool, err := inbox.OpenPool(ctx, db.URL, db.Schema, inbox.PoolAdmin, connections)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return pool, nil
}

func (s *shell) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema to the version this binary needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := s.database()
			if err != nil {
				return err
			}
			if err := migrations.Up(cmd.Context(), db.URL, db.Schema); err != nil {
				return err
			}
			return s.migrateStatus(cmd.Context())
		},
	}
	var yes bool
	down := &cobra.Command{
		Use: "down", Short: "Take all tables away, with everything in them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := s.database()
			if err != nil {
				return err
			}
			if !yes {
				return usagef("migrate down deletes every event in schema %s; add --yes if that is meant", db.Schema)
			}
			if err := migrations.Down(cmd.Context(), db.URL, db.Schema); err != nil {
				return err
			}
			return s.migrateStatus(cmd.Context())
		},
	}
	down.Flags().BoolVar(&yes, "yes", false, "really delete everything")
	status := &cobra.Command{
		Use: "status", Short: "Show the schema's version; exit 1 if it is not what this binary needs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pool, err := s.openPool(cmd.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			read, err := migrations.Read(cmd.Context(), pool)
			if err != nil {
				return err
			}
			if err := s.showStatus(read); err != nil {
				return err
			}
			if err := read.Check(); err != nil {
				return &failure{text: err.Error()}
			}
			return nil
		},
	}
	return group("migrate", "Make, check or remove the schema", up, down, status)
}

func (s *shell) migrateStatus(ctx context.Context) error {
	pool, err := s.openPool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return err
	}
	return s.showStatus(status)
}

func (s *shell) showStatus(status migrations.Status) error {
	t := &table{header: []string{"TABLES", "AT", "NEEDED", "STATE"}}
	state := func(at, needed int) string {
		switch {
		case status.Dirty:
			return "dirty"
		case at == needed:
			return "current"
		case at == 0:
			return "missing"
		case at < needed:
			return "older"
		}
		return "newer"
	}
	t.add("oncegate", fmt.Sprint(status.Current), fmt.Sprint(status.Known), state(status.Current, status.Known))
	t.add("river", fmt.Sprint(status.River), fmt.Sprint(status.RiverKnown), state(status.River, status.RiverKnown))
	return s.show(t, map[string]any{
		"current": status.Current, "needed": status.Known, "dirty": status.Dirty,
		"river": status.River, "river_needed": status.RiverKnown,
	})
}

// failure is exit code 1, whatever it was made from.
type failure struct{ text string }

func (e *failure) Error() string { return e.text }
