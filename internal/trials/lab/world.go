package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/migrations"
)

// WorldConfig says what a world consists of.
type WorldConfig struct {
	// Name is the campaign's. It names the directory that is made when Dir is empty.
	Name string

	// Dir takes the binaries, configurations and logs. If it is empty, a directory is made, and Close removes it.
	Dir string

	// Binary is tried instead of the one that is built from the checkout.
	Binary string

	// Failpoints also builds the binary with fail points.
	Failpoints bool

	// DSN is a PostgreSQL that runs already. If it is empty, one is started with Postgres, and Close stops it.
	DSN      string
	Postgres devpg.Config
}

// World is what a campaign runs on: a directory, the binary, and a PostgreSQL.
type World struct {
	// Host starts the program that is tried. Its directory has the binaries, configurations and logs.
	rig.Host

	// Server is the world's own PostgreSQL; nil if the campaign was given one.
	Server *devpg.Server

	temporary bool // Close removes Dir
}

// NewWorld makes the directory, builds the binaries and starts PostgreSQL. If it fails, it also returns what it has
// made, so that the caller can close it. The world is nil if there is nothing to close.
func NewWorld(ctx context.Context, cfg WorldConfig) (*World, error) {
	w := &World{Host: rig.Host{Dir: cfg.Dir, Binary: cfg.Binary, Database: cfg.DSN, Env: keyring()}}
	if w.Dir == "" {
		var err error
		if w.Dir, err = os.MkdirTemp("", "oncegate-"+cfg.Name+"-"); err != nil {
			return nil, fmt.Errorf("making a directory: %w", err)
		}
		w.temporary = true
	}
	if w.Binary == "" {
		w.Binary = filepath.Join(w.Dir, "oncegate")
		if err := Build(ctx, "./cmd/oncegate", w.Binary); err != nil {
			return w, err
		}
	}
	if cfg.Failpoints {
		w.Failing = filepath.Join(w.Dir, "oncegate-failpoint")
		if err := Build(ctx, "./cmd/oncegate", w.Failing, "failpoint"); err != nil {
			return w, err
		}
	}
	if w.Database != "" {
		return w, nil
	}
	var err error
	if w.Server, err = devpg.Start(ctx, cfg.Postgres); err != nil {
		return w, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	w.Database = w.Server.DSN()
	return w, nil
}

// keyring returns the variable with the caller's keyring, so that a campaign can be run with sealed content.
func keyring() []string {
	if value, set := os.LookupEnv("ONCEGATE_KEYRING"); set {
		return []string{"ONCEGATE_KEYRING=" + value}
	}
	return nil
}

// Close stops PostgreSQL and removes the directory, each if the world has made it.
func (w *World) Close() error {
	var errs []error
	if w.Server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		errs = append(errs, w.Server.Stop(ctx))
	}
	if w.temporary {
		errs = append(errs, os.RemoveAll(w.Dir))
	}
	return errors.Join(errs...)
}

// DSN is the connection string of PostgreSQL.
func (w *World) DSN() string { return w.Database }

// Connect opens a connection whose search_path is a schema.
func (w *World) Connect(ctx context.Context, schema string) (*pgx.Conn, error) {
	return rig.Connect(ctx, w.Database, schema)
}

// Prepare migrates a schema, runs statements in it, which make what the campaign needs there, and returns a connection
// to it.
func (w *World) Prepare(ctx context.Context, schema string, statements ...string) (*pgx.Conn, error) {
	if err := migrations.Up(ctx, w.Database, schema); err != nil {
		return nil, fmt.Errorf("migrating: %w", err)
	}
	db, err := w.Connect(ctx, schema)
	if err != nil {
		return nil, err
	}
	for _, statement := range statements {
		if _, err := db.Exec(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing schema %s: %w", schema, err), db.Close(context.WithoutCancel(ctx)))
		}
	}
	return db, nil
}

// Deadlocks counts the deadlocks that the world's PostgreSQL has logged so far.
func (w *World) Deadlocks() (int, error) {
	content, err := os.ReadFile(w.Server.LogPath())
	if err != nil {
		return 0, fmt.Errorf("reading PostgreSQL's log: %w", err)
	}
	return bytes.Count(content, []byte("deadlock detected")), nil
}

// Logs are patterns of the logs of the nodes whose names begin with a prefix, and of PostgreSQL.
func (w *World) Logs(prefix string) []string {
	logs := []string{filepath.Join(w.Dir, prefix+"*.log")}
	if w.Server != nil {
		logs = append(logs, w.Server.LogPath())
	}
	return logs
}
