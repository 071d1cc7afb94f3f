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
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/migrations"
)

// settings of the server are PostgreSQL's own, with fsync and synchronous_commit, except for memory and checkpoints,
// which every installation sets.
var settings = map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "400"}

// syncFor is how long the idle disk is measured.
const syncFor = 3 * time.Second

// testbed is what every benchmark needs: a directory, the binary, and a PostgreSQL that has been migrated.
type testbed struct {
	*lab.World
	db *pgx.Conn

	// diskSyncs is what the server's disk took before there was a load.
	diskSyncs syncTimes

	processes []*rig.Process
}

// progress prints a line for the person who waits, to stderr; results go to stdout.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// newTestbed builds the binary and starts PostgreSQL. If it fails, it may return a testbed with what it has started,
// which the caller closes.
func newTestbed(ctx context.Context) (*testbed, error) {
	progress("building the binary and starting PostgreSQL")
	w, err := lab.NewWorld(ctx, lab.WorldConfig{Name: "bench", Postgres: devpg.Config{Under: os.Getenv("BENCH_DIR"), Settings: settings}})
	if w == nil {
		return nil, err
	}
	s := &testbed{World: w}
	if err != nil {
		return s, err
	}
	if s.diskSyncs, err = measureSyncs(filepath.Dir(s.Server.Dir()), syncFor); err != nil {
		return s, err
	}
	if err := migrations.Up(ctx, s.DSN(), schema); err != nil {
		return s, fmt.Errorf("migrating: %w", err)
	}
	if s.db, err = pgx.Connect(ctx, s.DSN()); err != nil {
		return s, fmt.Errorf("connecting: %w", err)
	}
	return s, nil
}

// node is the configuration of a node of one role.
func (s *testbed) node(config, role string, env ...string) rig.NodeConfig {
	return rig.NodeConfig{
		Name: role, Config: config, Schema: schema, Role: role, Env: append([]string{"STRIPE_SECRET=" + secretValue, "LOG_LEVEL=warn"}, env...),
	}
}

// serve starts the real binary in one role and waits until it is ready. It ends with the testbed, if not before.
func (s *testbed) serve(ctx context.Context, config, role string, env ...string) (*rig.Node, error) {
	n, err := s.Serve(ctx, s.node(config, role, env...))
	if err != nil {
		return nil, fmt.Errorf("the %s process: %w", role, err)
	}
	s.processes = append(s.processes, n.Process)
	return n, nil
}

// self starts this program as another process, whose first argument is its name. It ends with the testbed, if not before.
func (s *testbed) self(args ...string) (*rig.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p, err := rig.Start(s.log(args[0]), nil, program, args...)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	return p, nil
}

// log is the path of the log of a process, by its name or role.
func (s *testbed) log(name string) string { return filepath.Join(s.Dir, name+".log") }

// cpuTime is the processor time that a process and PostgreSQL have used so far.
func (s *testbed) cpuTime(p *rig.Process) (time.Duration, error) {
	own, err1 := lab.CPU(p.PID())
	postgres, err2 := lab.FamilyCPU(s.Server.PID())
	return own + postgres, errors.Join(err1, err2)
}

// close stops what was started and removes the directory.
func (s *testbed) close() error {
	var errs []error
	for _, p := range s.processes {
		errs = append(errs, p.Stop(10*time.Second))
	}
	if s.db != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		errs = append(errs, s.db.Close(ctx))
	}
	return errors.Join(append(errs, s.World.Close())...)
}
