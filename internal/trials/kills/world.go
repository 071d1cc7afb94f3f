package kills

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/rig"
)

// World is what campaigns share: a PostgreSQL and the binaries.
type World struct {
	dir string

	// shipped is the binary as it is shipped, failing the same with fail points.
	shipped, failing string

	server *devpg.Server
}

// NewWorld builds the binaries and starts PostgreSQL, under dir. PostgreSQL is
// not killed, so it need not be durable.
func NewWorld(ctx context.Context, dir string) (*World, error) {
	w := &World{dir: dir, shipped: filepath.Join(dir, "oncegate"), failing: filepath.Join(dir, "oncegate-failpoint")}
	if err := rig.Build(ctx, "./cmd/oncegate", w.shipped); err != nil {
		return nil, err
	}
	if err := rig.Build(ctx, "./cmd/oncegate", w.failing, "failpoint"); err != nil {
		return nil, err
	}
	var err error
	if w.server, err = devpg.Start(ctx, devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "400"}}); err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	return w, nil
}

// Close stops PostgreSQL and removes its data.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return w.server.Stop(ctx)
}

// Connect opens a connection whose search_path is the schema.
func (w *World) Connect(ctx context.Context, schema string) (*pgx.Conn, error) {
	return rig.Connect(ctx, w.server.DSN(), schema)
}

// lease is that of the configuration.
const lease = time.Second

// %t says whether the target that cannot deduplicate is configured as if it could, %s which
// answers are taken for ones that precede its work.
const configuration = `
work: { lease: 1s, sweep_every: 1s, workers: 50 }
targets:
  idempotent: { kind: forward, url: env:KILLS_IDEMPOTENT, idempotent: true, timeout: 700ms, breaker: off, retry: { attempts: 1000, base: 50ms, max: 500ms } }
  once: { kind: forward, url: env:KILLS_ONCE, idempotent: %t, retry_on: [%s], timeout: 700ms, breaker: off, retry: { attempts: 1000, base: 50ms, max: 500ms } }
  mail: { kind: mail, smtp: env:KILLS_MAIL, from: gate@sink.example, starttls: off, timeout: 700ms, breaker: off, retry: { attempts: 1000, base: 50ms, max: 500ms } }
  table: { kind: sql, call: kills_apply, timeout: 700ms, breaker: off, retry: { attempts: 1000, base: 50ms, max: 500ms } }
sources:
  stripe:
    provider: stripe
    secrets: [env:KILLS_SECRET]
    routes:
      - { name: idempotent, types: ["idempotent.*"], target: idempotent }
      - { name: once, types: ["once.*"], target: once }
      - { name: mail, types: ["mail.*"], target: mail, mail: { to: body.to, subject: "Happened", text: "It happened." } }
      - { name: table, types: ["table.*"], target: table }
`

// The function inserts a row, and a call twice leaves two. Told to hold, it then
// waits for a lock that the campaign has.
const makeTable = `
CREATE TABLE kills_applied (event_id text NOT NULL, key text NOT NULL);
CREATE FUNCTION kills_apply(document jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kills_applied VALUES (document ->> 'id', document ->> 'key');
    IF document -> 'body' ->> 'hold' = 'yes' THEN
        PERFORM pg_advisory_xact_lock_shared(hashtext(current_schema()));
    END IF;
END $$`
