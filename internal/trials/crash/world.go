package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

// World is what campaigns share: a durable PostgreSQL and the binaries.
type World struct {
	dir string

	// shipped is the binary as it is shipped, failing the same with fail points.
	shipped, failing string

	server *devpg.Server
}

// NewWorld builds the binaries and starts PostgreSQL, under dir.
func NewWorld(ctx context.Context, dir string) (*World, error) {
	w := &World{dir: dir, shipped: filepath.Join(dir, "oncegate"), failing: filepath.Join(dir, "oncegate-failpoint")}
	if err := rig.Build(ctx, "./cmd/oncegate", w.shipped); err != nil {
		return nil, err
	}
	if err := rig.Build(ctx, "./cmd/oncegate", w.failing, "failpoint"); err != nil {
		return nil, err
	}
	// The WAL writer is slowed down so that a commit that did not wait for the disk
	// is lost when PostgreSQL is killed. One that did wait never needs it.
	server, err := devpg.Start(ctx, devpg.Config{Settings: map[string]string{"max_connections": "200", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}})
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	w.server = server
	return w, nil
}

// Close stops PostgreSQL and removes its data.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return w.server.Stop(ctx)
}

// process is the running binary.
type process struct {
	*rig.Process
	failpoint string
}

// serve starts the binary, with a fail point if one is named, and waits until it
// is ready or has ended: a fail point may strike before.
func (c *Campaign) serve(ctx context.Context, failpoint string) (*process, error) {
	binary := c.world.shipped
	env := []string{
		"DATABASE_URL=" + c.dsn, "ONCEGATE_SCHEMA=" + c.schema, "CRASH_SECRET=" + secret, "LOG_LEVEL=warn",
		"ONCEGATE_PUBLIC=" + c.public, "ONCEGATE_ADMIN=" + c.admin,
	}
	if failpoint != "" {
		binary = c.world.failing
		env = append(env, "ONCEGATE_FAILPOINT="+failpoint)
	}
	role := "receive,work"
	if c.options.Wrong == Asynchronous {
		role = "receive" // a worker's commits take the gate's to the disk with them
	}
	p, err := rig.Start(filepath.Join(c.world.dir, c.schema+".log"), env, binary, "serve", "--config", c.config, "--role", role)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = p.Ready(ctx, "http://"+c.admin+"/readyz")
	if err != nil && failpoint != "" && errors.Is(err, rig.ErrEnded) {
		err = nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the binary: %w: %s", err, c.logTail()), p.Kill())
	}
	return &process{p, failpoint}, nil
}

func (c *Campaign) logTail() string {
	content, err := os.ReadFile(filepath.Join(c.world.dir, c.schema+".log"))
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-1000):])
}

const configuration = `
work: { lease: 1s, sweep_every: 1s, workers: 50 }
targets:
  sink: { kind: forward, url: "http://%s/", idempotent: true, timeout: 700ms, breaker: { open: 1s }, retry: { attempts: 1000, base: 100ms, max: 1s } }
  table: { kind: sql, call: crash_apply, timeout: 700ms, retry: { attempts: 1000, base: 100ms, max: 1s } }
sources:
  stripe:
    provider: stripe
    secrets: [env:CRASH_SECRET]
    routes:
      - { name: sink, types: ["*"], target: sink }
      - { name: table, types: ["invoice.*"], target: table }
`
