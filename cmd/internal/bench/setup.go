package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/cmd/internal/devpg"
	"github.com/oncegate/oncegate/cmd/internal/rig"
	"github.com/oncegate/oncegate/migrations"
)

// poolSize is the same for both receivers. The gate uses two of them.
const poolSize = 16

// settings of the server: PostgreSQL's own, fsync and synchronous_commit
// included, but for memory and checkpoints, which every installation sets.
var settings = map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "400"}

// bench is everything that runs.
type bench struct {
	options
	dir     string
	binary  string
	server  *devpg.Server
	db      *pgx.Conn
	config  string
	runs    uint32
	done    int // measurements
	planned int

	naive, gate               *rig.Process
	naiveAddress, gateAddress string
}

// progress tells the person who waits; results go to stdout.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// setUp starts everything. What it started is in the bench also when it fails.
func setUp(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "oncegate-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	b := &bench{options: o, dir: dir, binary: filepath.Join(dir, "oncegate")}
	b.progress("building the binary and starting PostgreSQL")
	if err := rig.Build(ctx, "./cmd/oncegate", b.binary); err != nil {
		return b, err
	}
	if b.server, err = devpg.Start(ctx, devpg.Config{Settings: settings}); err != nil {
		return b, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	if err := migrations.Up(ctx, b.server.DSN(), schema); err != nil {
		return b, fmt.Errorf("migrating: %w", err)
	}
	if b.db, err = pgx.Connect(ctx, b.server.DSN()); err != nil {
		return b, fmt.Errorf("connecting: %w", err)
	}
	const table = `CREATE SCHEMA bench; CREATE TABLE bench.row (event_id text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now(), body text NOT NULL)`
	if _, err := b.db.Exec(ctx, table); err != nil {
		return b, fmt.Errorf("making pgbench's table: %w", err)
	}
	// As the gate's own bodies, where the server can.
	_, _ = b.db.Exec(ctx, `ALTER TABLE bench.row ALTER COLUMN body SET COMPRESSION lz4`)
	b.config = filepath.Join(dir, "oncegate.yml")
	if err := os.WriteFile(b.config, []byte(configuration), 0o600); err != nil {
		return b, fmt.Errorf("writing the configuration: %w", err)
	}
	if b.gate, b.gateAddress, err = b.serve(ctx, "receive"); err != nil {
		return b, err
	}
	return b, b.startNaive(ctx)
}

const configuration = `
targets:
  nothing: { kind: noop }
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes: [{ name: nothing, types: ["*"], target: nothing }]
`

// serve starts the real binary in one role and waits until it is ready.
func (b *bench) serve(ctx context.Context, role string) (*rig.Process, string, error) {
	public, err1 := rig.FreeAddress()
	admin, err2 := rig.FreeAddress()
	if err := errors.Join(err1, err2); err != nil {
		return nil, "", err
	}
	env := append([]string{
		"DATABASE_URL=" + b.server.DSN(), "STRIPE_SECRET=" + secretValue, "LOG_LEVEL=warn",
		"ONCEGATE_PUBLIC=" + public, "ONCEGATE_ADMIN=" + admin, "ONCEGATE_GATE_CONNECTIONS=" + strconv.Itoa(poolSize),
		"ONCEGATE_WORKERS=500",
	}, b.env...)
	p, err := rig.Start(filepath.Join(b.dir, role+".log"), env, b.binary, "serve", "--config", b.config, "--role", role)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := p.Ready(ctx, "http://"+admin+"/readyz"); err != nil {
		return p, "", fmt.Errorf("starting the %s process: %w (log: %s)", role, err, b.tail(role+".log"))
	}
	return p, public, nil
}

func (b *bench) startNaive(ctx context.Context) error {
	address, err := rig.FreeAddress()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	b.naiveAddress = address
	b.naive, err = rig.Start(filepath.Join(b.dir, "naive.log"), nil, self, "naive", "--listen", address,
		"--database", b.server.DSN(), "--secret", secretValue, "--connections", strconv.Itoa(poolSize))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := b.naive.Listening(ctx, address); err != nil {
		return fmt.Errorf("starting the naive receiver: %w (log: %s)", err, b.tail("naive.log"))
	}
	return nil
}

// tail is the end of a log, in one line.
func (b *bench) tail(name string) string {
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-500):])
}

// tearDown ends what was started and removes the directory.
func (b *bench) tearDown() error {
	var errs []error
	for _, p := range []*rig.Process{b.gate, b.naive} {
		if p != nil {
			errs = append(errs, p.Stop(10*time.Second))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if b.db != nil {
		errs = append(errs, b.db.Close(ctx))
	}
	if b.server != nil {
		errs = append(errs, b.server.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}
