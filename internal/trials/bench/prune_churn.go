package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// In each round a cohort of events arrives and its effects are carried out; a few rounds later the cohort is pruned.
// The rounds run in two schemas in turn: one has the settings of the migrations, the other PostgreSQL's own settings.
const (
	churnCohort = 20_000 // events of a round
	churnAlive  = 5      // cohorts that exist at the same time
	churnStep   = 500    // events of one transaction
	churnEvery  = 6 * time.Second
)

// churnTables are the tables that rows come into and leave. They are measured.
var churnTables = []string{"inbox_event", "effect", "effect_attempt", "stream", "outbox"}

// churnSize is one table after the last round, with our settings and without them.
type churnSize struct {
	Table string `json:"table"`

	// Grown is the size of the table with its indexes, divided by its size after the first cohorts. Dead is the number
	// of rows that no vacuum has removed. HOT is the share of updates that wrote no index.
	MiB        float64 `json:"mib"`
	PlainMiB   float64 `json:"plain_mib"`
	Grown      float64 `json:"grown"`
	PlainGrown float64 `json:"plain_grown"`
	Dead       int64   `json:"dead"`
	PlainDead  int64   `json:"plain_dead"`
	HOT        float64 `json:"hot"`
	PlainHOT   float64 `json:"plain_hot"`

	Ratio float64 `json:"ratio"` // of the sizes
}

// churnedSchema is one of the two schemas.
type churnedSchema struct {
	pool   *pgxpool.Pool
	first  time.Time // the date of the first cohort
	next   int       // cohort
	before map[string]tableSize
}

type tableSize struct {
	bytes, dead, updates, hot int64
}

// measureChurn measures how much the settings of the tables help.
func (b *pruneBench) measureChurn(ctx context.Context, r *pruneReport) error {
	if b.churn == 0 {
		return nil
	}
	// A minute of traffic passes in a second here, so autovacuum is made faster too.
	for _, sql := range []string{`ALTER SYSTEM SET autovacuum_naptime = '1s'`, `SELECT pg_reload_conf()`} {
		if _, err := b.db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("setting autovacuum's pace: %w", err)
		}
	}
	ours, err := b.newChurned(ctx, "churn")
	if err != nil {
		return err
	}
	defer ours.pool.Close()
	plain, err := b.newChurned(ctx, "plain")
	if err != nil {
		return err
	}
	defer plain.pool.Close()
	if err := plain.reset(ctx); err != nil {
		return err
	}
	for round := range churnAlive + b.churn {
		for _, c := range []*churnedSchema{ours, plain} {
			began := time.Now()
			if err := c.round(ctx); err != nil {
				return fmt.Errorf("churning: %w", err)
			}
			if round < churnAlive {
				continue
			}
			if !rig.Pause(ctx, churnEvery/2-time.Since(began)) { // as much time for both, to vacuum in
				return ctx.Err()
			}
		}
		if round == churnAlive-1 {
			progress("churn: %d events are there, %d rounds of %d more and as many pruned follow", churnAlive*churnCohort, b.churn, churnCohort)
			ours.before, err = ours.sizes(ctx)
			if err != nil {
				return err
			}
			if plain.before, err = plain.sizes(ctx); err != nil {
				return err
			}
		}
	}
	r.Churn, err = compareChurn(ctx, ours, plain)
	return err
}

// newChurned migrates a schema and copies the source of the configuration into it.
func (b *pruneBench) newChurned(ctx context.Context, name string) (*churnedSchema, error) {
	if err := migrations.Up(ctx, b.DSN(), name); err != nil {
		return nil, fmt.Errorf("migrating: %w", err)
	}
	pool, err := session.OpenPool(ctx, b.DSN(), name, session.PoolAdmin, 2)
	if err != nil {
		return nil, err
	}
	for _, table := range []string{"retention_class", "source", "route"} {
		if _, err := pool.Exec(ctx, "INSERT INTO "+table+" OVERRIDING SYSTEM VALUE SELECT * FROM "+schema+"."+table); err != nil {
			pool.Close()
			return nil, fmt.Errorf("registering the source: %w", err)
		}
	}
	return &churnedSchema{pool: pool, first: time.Now().AddDate(0, 0, -1000)}, nil
}

const resetTables = `
SELECT format('ALTER TABLE %I RESET (%s)', c.relname, (SELECT string_agg(split_part(o, '=', 1), ', ') FROM unnest(c.reloptions) o))
FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.reloptions IS NOT NULL`

// reset removes every setting from the tables.
func (c *churnedSchema) reset(ctx context.Context) error {
	rows, err := c.pool.Query(ctx, resetTables)
	if err != nil {
		return fmt.Errorf("reading the settings of the tables: %w", err)
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("reading the settings of the tables: %w", err)
	}
	for _, sql := range statements {
		if _, err := c.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("resetting the settings of the tables: %w", err)
		}
	}
	return nil
}

// Cohort $1 is dated so many days after the first cohort, which is dated $4. $2 and $3 are its first and last event in
// this step.
const (
	churnDated = `
WITH n AS MATERIALIZED (
    SELECT n, $4::timestamptz + $1::int * interval '1 day' + n * interval '1 ms' AS at FROM generate_series($2::int, $3::int) n),
i AS MATERIALIZED (
    SELECT n, at, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex($1::bigint * 1000000 + n), 15, '0'))::uuid AS id FROM n)`

	churnEvents = churnDated + `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, occurred_at, received_at, admission, class, body_id,
    item, body_offset, body_length, id_unsigned, suspected_replay)
SELECT id, (SELECT min(id) FROM source), 'evt_' || md5(id::text), 'invoice.paid', sha256(id::text::bytea), at, at, 'ok', 'default', id, 0, 0, 2048, false, false
FROM i`

	churnEffects = churnDated + `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, next_at)
SELECT id, id, (SELECT min(id) FROM route), 1, id::text, 'pending', now() FROM i`

	churnClaim = churnDated + `
UPDATE effect e SET state = 'claimed', lease_token = e.id, lease_until = now() + interval '1 minute', next_at = now() + interval '1 minute', attempts = 1
FROM i WHERE e.id = i.id`

	churnSettle = churnDated + `
UPDATE effect e SET state = 'done', lease_token = NULL, lease_until = NULL, next_at = NULL, finished_at = i.at, last_code = '200', version = e.version + 1
FROM i WHERE e.id = i.id`

	churnAttempts = churnDated + `
INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code)
SELECT id, 1, 1, 'initial', 'node', at, at, 'done', '200' FROM i`

	// Two thousand streams advance again and again.
	churnStreams = churnDated + `
INSERT INTO stream (route_id, key_hash, applied) SELECT (SELECT min(id) FROM route), sha256((n % 2000)::text::bytea), n FROM i
ON CONFLICT ON CONSTRAINT stream_key DO UPDATE SET applied = excluded.applied, updated_at = now()`

	// One delivery in three comes twice.
	churnRedeliver = churnDated + `
UPDATE inbox_event e SET deliveries = e.deliveries + 1, last_delivery_at = now() FROM i WHERE e.id = i.id AND i.n % 3 = 0`

	churnEmit  = churnDated + ` INSERT INTO outbox (source, event_id, type, payload) SELECT 'stripe', id::text, 'invoice.paid', sha256(id::text::bytea) FROM i`
	churnRelay = churnDated + ` DELETE FROM outbox o USING i WHERE o.event_id = i.id::text AND o.id > (SELECT max(id) FROM outbox) - 2 * ($3::int - $2::int + 1)`
)

// The horizon is moved so that everything older than the cohorts that stay is due.
const churnHorizon = `
UPDATE retention_class SET body = h, effects = h, tombstone = h
FROM (SELECT now() - $2::timestamptz - $1::int * interval '1 day' + interval '1 hour' AS h) h`

// round writes one cohort, carries its effects out, and prunes the cohort that is now too old.
func (c *churnedSchema) round(ctx context.Context) error {
	for from := 1; from <= churnCohort; from += churnStep {
		var b pgx.Batch
		for _, sql := range []string{
			churnEvents, churnEffects, churnClaim, churnSettle, churnAttempts, churnStreams, churnRedeliver, churnEmit, churnRelay,
		} {
			// Each step is committed before the next, as in operation.
			b.Queue("BEGIN")
			b.Queue(sql, c.next, from, from+churnStep-1, c.first)
			b.Queue("COMMIT")
		}
		if err := c.pool.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
	}
	c.next++
	if c.next <= churnAlive {
		return nil
	}
	if _, err := c.pool.Exec(ctx, `UPDATE source SET tombstone = NULL`); err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, churnHorizon, c.next-churnAlive, c.first); err != nil {
		return err
	}
	pruner, err := prune.New(prune.Config{Pool: c.pool, Rate: -1})
	if err != nil {
		return err
	}
	report, err := pruner.Run(ctx, prune.Run{Anew: true})
	if err != nil {
		return err
	}
	for _, table := range []string{"inbox_event", "effect", "effect_attempt"} {
		if n := report.Rows[table]; n != churnCohort {
			return fmt.Errorf("%d rows of %s were pruned, want %d", n, table, churnCohort)
		}
	}
	return nil
}

const readSizes = `
SELECT c.relname, pg_total_relation_size(c.oid), coalesce(s.n_dead_tup, 0), coalesce(s.n_tup_upd, 0), coalesce(s.n_tup_hot_upd, 0)
FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY ($1::text[])`

func (c *churnedSchema) sizes(ctx context.Context) (map[string]tableSize, error) {
	rows, err := c.pool.Query(ctx, readSizes, churnTables)
	if err != nil {
		return nil, fmt.Errorf("measuring the tables: %w", err)
	}
	out := map[string]tableSize{}
	var name string
	var t tableSize
	_, err = pgx.ForEachRow(rows, []any{&name, &t.bytes, &t.dead, &t.updates, &t.hot}, func() error {
		out[name] = t
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measuring the tables: %w", err)
	}
	return out, nil
}

func compareChurn(ctx context.Context, ours, plain *churnedSchema) ([]churnSize, error) {
	<-time.After(2 * time.Second) // PostgreSQL reports its statistics late
	a, err := ours.sizes(ctx)
	if err != nil {
		return nil, err
	}
	b, err := plain.sizes(ctx)
	if err != nil {
		return nil, err
	}
	of := func(part, whole int64) float64 { return float64(part) / float64(max(whole, 1)) }
	var out []churnSize
	for _, name := range churnTables {
		out = append(out, churnSize{
			Table: name, MiB: of(a[name].bytes, 1<<20), PlainMiB: of(b[name].bytes, 1<<20),
			Grown: of(a[name].bytes, ours.before[name].bytes), PlainGrown: of(b[name].bytes, plain.before[name].bytes),
			Dead: a[name].dead, PlainDead: b[name].dead, HOT: of(a[name].hot, a[name].updates), PlainHOT: of(b[name].hot, b[name].updates),
			Ratio: of(a[name].bytes, b[name].bytes),
		})
	}
	return out, nil
}

func writeChurn(w io.Writer, sizes []churnSize) {
	if len(sizes) == 0 {
		return
	}
	fmt.Fprintf(w, "\nTables over churn, with our settings / with PostgreSQL's own: size with indexes, growth since they were first full, dead rows, HOT updates\n")
	for _, s := range sizes {
		fmt.Fprintf(w, "  %-16s %6.1f / %6.1f MiB (%.2f times)   %5.2f / %5.2f times   %7d / %7d   %3.0f / %3.0f %%\n", s.Table,
			s.MiB, s.PlainMiB, s.Ratio, s.Grown, s.PlainGrown, s.Dead, s.PlainDead, 100*s.HOT, 100*s.PlainHOT)
	}
}
