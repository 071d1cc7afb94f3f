package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/rig"
	"github.com/oncegate/oncegate/migrations"
)

// settings of the server: PostgreSQL's own, fsync and synchronous_commit
// included, but for memory and checkpoints, which every installation sets.
var settings = map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "400"}

// syncing is how long the disk is looked at before anything is measured.
const syncing = 3 * time.Second

// stand is what every benchmark needs: a directory, the binary, and a PostgreSQL
// that has been migrated.
type stand struct {
	dir    string
	binary string
	server *devpg.Server
	db     *pgx.Conn

	// disk is what the server's disk took before there was a load.
	disk syncs

	processes []*rig.Process
}

// progress tells the person who waits; results go to stdout.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// newStand builds and starts it all. What it started is in the stand also when
// it fails.
func newStand(ctx context.Context) (*stand, error) {
	dir, err := os.MkdirTemp("", "oncegate-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	s := &stand{dir: dir, binary: filepath.Join(dir, "oncegate")}
	progress("building the binary and starting PostgreSQL")
	if err := rig.Build(ctx, "./cmd/oncegate", s.binary); err != nil {
		return s, err
	}
	if s.server, err = devpg.Start(ctx, devpg.Config{Under: os.Getenv("BENCH_DIR"), Settings: settings}); err != nil {
		return s, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	if s.disk, err = measureSyncs(filepath.Dir(s.server.Dir()), syncing); err != nil {
		return s, err
	}
	if err := migrations.Up(ctx, s.server.DSN(), schema); err != nil {
		return s, fmt.Errorf("migrating: %w", err)
	}
	if s.db, err = pgx.Connect(ctx, s.server.DSN()); err != nil {
		return s, fmt.Errorf("connecting: %w", err)
	}
	return s, nil
}

// write writes a configuration and gives its path.
func (s *stand) write(name, configuration string) (string, error) {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		return "", fmt.Errorf("writing the configuration: %w", err)
	}
	return path, nil
}

// serve starts the real binary in one role and waits until it is ready; public
// is where it takes deliveries. It ends with the stand, if not before.
func (s *stand) serve(ctx context.Context, config, role string, env ...string) (p *rig.Process, public string, err error) {
	public, err1 := rig.FreeAddress()
	admin, err2 := rig.FreeAddress()
	if err := errors.Join(err1, err2); err != nil {
		return nil, "", err
	}
	env = append([]string{
		"DATABASE_URL=" + s.server.DSN(), "STRIPE_SECRET=" + secretValue, "LOG_LEVEL=warn", "ONCEGATE_PUBLIC=" + public, "ONCEGATE_ADMIN=" + admin,
	}, env...)
	if p, err = rig.Start(filepath.Join(s.dir, role+".log"), env, s.binary, "serve", "--config", config, "--role", role); err != nil {
		return nil, "", err
	}
	s.processes = append(s.processes, p)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := p.Ready(ctx, "http://"+admin+"/readyz"); err != nil {
		return p, "", fmt.Errorf("starting the %s process: %w (log: %s)", role, err, s.tail(role+".log"))
	}
	return p, public, nil
}

// spent is the processor time of a process and of PostgreSQL so far.
func (s *stand) spent(p *rig.Process) (time.Duration, error) {
	own, err1 := rig.CPU(p.PID())
	postgres, err2 := rig.FamilyCPU(s.server.PID())
	return own + postgres, errors.Join(err1, err2)
}

// tail is the end of a log, in one line.
func (s *stand) tail(name string) string {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-500):])
}

// close ends what was started and removes the directory.
func (s *stand) close() error {
	var errs []error
	for _, p := range s.processes {
		errs = append(errs, p.Stop(10*time.Second))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if s.db != nil {
		errs = append(errs, s.db.Close(ctx))
	}
	if s.server != nil {
		errs = append(errs, s.server.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
