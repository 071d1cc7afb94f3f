package crash

import (
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

const (
	senderCount = 20
	senderPause = 17500 * time.Microsecond

	secret      = "whsec_crash_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	wrongSecret = "whsec_crash_0123456789abcdef0123456789abcdee" //nolint:gosec // as above
)

// World is what the campaigns run on: a durable PostgreSQL. The WAL writer is slowed down, so that a commit that did not
// wait for the disk is lost when PostgreSQL is killed. A commit that did wait does not need the WAL writer.
var World = lab.WorldConfig{Failpoints: true, Postgres: devpg.Config{
	Settings: map[string]string{"max_connections": "200", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"},
}}

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
