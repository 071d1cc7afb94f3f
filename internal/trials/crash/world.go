package crash

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

const (
	senderCount = 20
	senderPause = 17500 * time.Microsecond

	secret      = "whsec_crash_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	wrongSecret = "whsec_crash_0123456789abcdef0123456789abcdee" //nolint:gosec // as above
)

// NewWorld builds the binaries and starts a durable PostgreSQL, under dir.
func NewWorld(ctx context.Context, dir string) (*lab.World, error) {
	// The WAL writer is slowed down, so that a commit that did not wait for the disk is lost when PostgreSQL is killed.
	// A commit that did wait does not need the WAL writer.
	return lab.NewWorld(ctx, lab.WorldConfig{Name: "crash", Dir: dir, Failpoints: true, Postgres: devpg.Config{
		Settings: map[string]string{"max_connections": "200", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"},
	}})
}

// serve starts the binary, with a fail point if one is named, and waits until it is ready or has ended, since a fail
// point may strike before.
func (c *Campaign) serve(ctx context.Context, failpoint string) (*rig.Node, error) {
	role := "receive,work"
	if c.options.Defect == AsynchronousCommit {
		role = "receive" // a worker's commits would sync the gate's too
	}
	return c.world.Serve(ctx, rig.NodeConfig{
		Name: c.schema, Config: c.config, Schema: c.schema, Role: role, DSN: c.dsn, Public: c.public, Admin: c.admin, Failpoint: failpoint,
		Env: []string{"CRASH_SECRET=" + secret, "LOG_LEVEL=warn"},
	})
}

const configuration = `
work: { lease: 1s, sweep_every: 1s, workers: 50 }
targets:
  sink: { kind: forward, url: "http://%s/", idempotent: true, timeout: 700ms, breaker: { open: 1s }, retry: { attempts: 1000, base: 100ms, max: 1s } }
  table: { kind: sql, call: drill_apply, timeout: 700ms, retry: { attempts: 1000, base: 100ms, max: 1s } }
sources:
  stripe:
    provider: stripe
    secrets: [env:CRASH_SECRET]
    routes:
      - { name: sink, types: ["*"], target: sink, key: [body.order] }
      - { name: table, types: ["invoice.*"], target: table, key: [body.order] }
`
