package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultLockWait is how long a migration waits for a lock by default, over all attempts.
const DefaultLockWait = time.Minute

// Config configures a [Migrator]. URL and Schema are required.
type Config struct {
	URL, Schema string

	// LockWait is how long to wait for another migration to end, and for how long each migration
	// tries to get the locks that it needs. Zero means [DefaultLockWait].
	LockWait time.Duration

	// Tell is called with one line when the migrator waits. It may be nil.
	Tell func(line string)

	// Now is the clock for measuring waits. It defaults to time.Now.
	Now func() time.Time

	// Tests replace files, version and dial.
	files   fs.FS
	version int
	dial    pgconn.DialFunc
}

// Migrator changes the version of a schema. Several processes may migrate one schema at the same
// time: they run one after another, and the later ones find nothing to do.
type Migrator struct{ cfg Config }

// New returns a Migrator. It does not connect to the database.
func New(cfg Config) (*Migrator, error) {
	if cfg.URL == "" || cfg.Schema == "" {
		return nil, errors.New("a migrator needs the url of a database and a schema")
	}
	if cfg.LockWait < 0 {
		return nil, errors.New("a migrator's lock wait must not be negative")
	}
	if cfg.LockWait == 0 {
		cfg.LockWait = DefaultLockWait
	}
	if cfg.Tell == nil {
		cfg.Tell = func(string) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.files == nil {
		cfg.files, cfg.version = files, Version
	}
	return &Migrator{cfg: cfg}, nil
}

// Up brings the schema to the version that this binary needs and creates it if it is missing. It
// leaves a newer schema unchanged if this binary may run on it. If ctx ends, Up rolls back the
// current migration, keeps the migrations before it, and returns [ErrStopped]. Up needs a direct or
// session-pooled connection. At the end it reads the schema over a new connection, and returns an
// error unless the schema fits this binary.
func (m *Migrator) Up(ctx context.Context) error {
	if err := m.up(ctx); err != nil {
		return err
	}
	return m.readBack(ctx)
}

func (m *Migrator) up(ctx context.Context) error {
	return m.locked(ctx, func(r *runner) error {
		if err := r.createSchema(ctx); err != nil {
			return err
		}
		status, err := r.status(ctx)
		if err != nil {
			return err
		}
		if err := status.newer(); err != nil {
			return err
		}
		if err := r.riverUp(ctx, status); err != nil {
			return err
		}
		if status.Current < status.Known {
			if err := r.own(ctx, func(l *migrate.Migrate) error { return l.Migrate(uint(status.Known)) }); err != nil {
				return err
			}
		}
		return r.stateRiver(ctx)
	})
}

// DownTo reverts every migration after the given version, which must be at least 1. It does not
// change River's tables.
func (m *Migrator) DownTo(ctx context.Context, version int) error {
	return m.locked(ctx, func(r *runner) error {
		status, err := r.status(ctx)
		if err != nil {
			return err
		}
		if err := status.Target(version); err != nil {
			return err
		}
		return r.own(ctx, func(l *migrate.Migrate) error { return l.Migrate(uint(version)) })
	})
}

// DownAll drops all tables, including River's. The schema itself remains. All data is lost.
func (m *Migrator) DownAll(ctx context.Context) error {
	return m.locked(ctx, func(r *runner) error {
		status, err := r.status(ctx)
		if err != nil {
			return err
		}
		if status.Current > status.Known {
			return status.newerFiles()
		}
		if status.Current > 0 {
			if err := r.own(ctx, func(l *migrate.Migrate) error { return l.Down() }); err != nil {
				return err
			}
		}
		if _, err := r.conn.Exec(ctx, "DROP TABLE IF EXISTS "+versionTable); err != nil {
			return fmt.Errorf("dropping the record of versions: %w", err)
		}
		return r.riverDown(ctx)
	})
}

// own runs golang-migrate on Oncegate's files.
func (r *runner) own(ctx context.Context, run func(*migrate.Migrate) error) error {
	source, err := iofs.New(r.cfg.files, "sql")
	if err != nil {
		return fmt.Errorf("reading the embedded migrations: %w", err)
	}
	d := &driver{ctx: ctx, runner: r}
	if err := d.createTable(); err != nil {
		return errors.Join(err, source.Close())
	}
	m, err := migrate.NewWithInstance("embedded", source, "oncegate", d)
	if err != nil {
		return errors.Join(fmt.Errorf("preparing the migrations: %w", err), source.Close())
	}
	err = run(m)
	if errors.Is(err, migrate.ErrNoChange) {
		err = nil
	}
	sourceErr, _ := m.Close()
	return errors.Join(err, sourceErr)
}

func (r *runner) createSchema(ctx context.Context) error {
	if _, err := r.conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{r.cfg.Schema}.Sanitize()); err != nil {
		return fmt.Errorf("making schema %s: %w", r.cfg.Schema, err)
	}
	return nil
}
