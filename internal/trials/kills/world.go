package kills

import (
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// World is what the campaigns run on. PostgreSQL is not killed, so it need not be durable.
var World = lab.WorldConfig{Failpoints: true, Postgres: devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "400"}}}

// lease is the lease in the configuration.
const lease = time.Second

// timeout is the timeout of each target in the configuration.
const timeout = 700 * time.Millisecond

// %t says whether the target that cannot deduplicate is configured as if it could, and %s which
// answers count as preceding its work.
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
      - { name: once, types: ["once.*"], target: once, key: [body.order] }
      - { name: mail, types: ["mail.*"], target: mail, mail: { to: body.to, subject: "Happened", text: "It happened." } }
      - { name: table, types: ["table.*"], target: table, key: [body.order] }
`

// The function inserts a row. If it must hold, it then waits for a
// lock that the campaign has.
const makeTable = `
CREATE FUNCTION kills_apply(document jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM drill_apply(document);
    IF document -> 'body' ->> 'hold' = 'yes' THEN
        PERFORM pg_advisory_xact_lock_shared(hashtext(current_schema()));
    END IF;
END $$`
