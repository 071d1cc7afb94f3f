package pages

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// fillChunk is how many events one statement makes.
const fillChunk = 250_000

// The last three of the 40 sources are quiet.
const fillSources = `
INSERT INTO source (name, provider, class, tenant)
SELECT CASE n WHEN 38 THEN 'rare' WHEN 39 THEN 'thousand' WHEN 40 THEN 'retired' ELSE 'busy' || n END, 'stripe', 'default', 'tenant' || n % 8
FROM generate_series(1, 40) n ORDER BY n`

const fillRoutes = `
INSERT INTO route (source_id, name, target, kind, digest)
SELECT s.id, r.name, r.name || s.id % 10, 'forward', '\x01' FROM source s, (VALUES ('ledger'), ('mail')) r (name) ORDER BY s.id, r.name`

// Events number $1 to $2 of $3, a month of them, in the order of their ids. The quiet sources take theirs out of the
// others': 10 of rare, 1,000 of thousand, and of retired every fourth of the first twentieth.
const fillEvents = `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
    id_unsigned, suspected_replay, tenant)
SELECT e.id, s.id, 'evt_' || n, (ARRAY['invoice.paid', 'charge.failed', 'customer.updated', 'payout.paid'])[1 + n % 4], sha256(n::text::bytea), e.at,
    CASE WHEN n % 100003 = 0 THEN 'unusable' WHEN n % 50021 = 0 THEN 'unrouted' ELSE 'ok' END, 'default', e.id, 0, 0, 1000, false, false, s.tenant
FROM generate_series($1::bigint, $2::bigint) n
CROSS JOIN LATERAL (SELECT now() - interval '30 days' * (1 - n::float8 / $3::bigint) AS at) t
CROSS JOIN LATERAL (SELECT t.at, (lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id) e
JOIN source s ON s.name = CASE
    WHEN n % ($3::bigint / 10) = 7 THEN 'rare'
    WHEN n % greatest($3::bigint / 1000, 2) = 3 THEN 'thousand'
    WHEN n < $3::bigint / 20 AND n % 4 = 1 THEN 'retired'
    ELSE 'busy' || 1 + (n * 7919) % 37 END`

// An effect for each event of this part that was admitted as ok; most are done.
const fillEffects = `
INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, last_code, next_at, finished_at, attempts, duplicate_of)
SELECT v.id, v.id, r.id, x.state, v.event_id, 1,
    CASE x.state WHEN 'dead' THEN 'attempts_exhausted' WHEN 'indeterminate' THEN 'timeout' WHEN 'skipped' THEN 'discarded' WHEN 'held' THEN 'sequence_gap' END,
    CASE WHEN x.state IN ('dead', 'retry') THEN '503' END,
    CASE WHEN x.state IN ('pending', 'retry', 'held') THEN v.received_at END,
    CASE WHEN x.state IN ('done', 'skipped', 'superseded', 'duplicate') THEN v.received_at END, 1,
    CASE WHEN x.state = 'duplicate' THEN v.id END
FROM (SELECT v.*, substr(v.event_id, 5)::bigint AS n FROM inbox_event v WHERE v.id >= (SELECT id FROM inbox_event WHERE event_id = 'evt_' || $1::bigint AND source_id = ANY (ARRAY(SELECT id FROM source)))) v
JOIN route r ON r.source_id = v.source_id AND r.name = CASE WHEN v.n % 5 = 0 THEN 'mail' ELSE 'ledger' END
CROSS JOIN LATERAL (SELECT CASE
    WHEN v.n % 1009 = 0 THEN 'dead' WHEN v.n % 10007 = 0 THEN 'indeterminate' WHEN v.n % 5003 = 0 THEN 'retry' WHEN v.n % 7001 = 0 THEN 'held'
    WHEN v.n % 401 = 0 THEN 'superseded' WHEN v.n % 20011 = 0 THEN 'skipped' WHEN v.n % 3001 = 0 THEN 'duplicate' WHEN v.n % 9001 = 0 THEN 'pending'
    ELSE 'done' END AS state) x
WHERE v.admission = 'ok'`

// Fill makes sources, routes, the given number of events, and an effect for each event that was admitted as ok. It
// reports its progress to say.
func Fill(ctx context.Context, pool *pgxpool.Pool, events int, say func(string, ...any)) error {
	for _, sql := range []string{fillSources, fillRoutes} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("making sources: %w", err)
		}
	}
	for first := 1; first <= events; first += fillChunk {
		last := min(first+fillChunk-1, events)
		if _, err := pool.Exec(ctx, fillEvents, first, last, events); err != nil {
			return fmt.Errorf("making events %d to %d: %w", first, last, err)
		}
		if _, err := pool.Exec(ctx, fillEffects, first); err != nil {
			return fmt.Errorf("making effects %d to %d: %w", first, last, err)
		}
		say("%d of %d events", last, events)
	}
	// The server may be vacuuming a table by itself, which takes minutes.
	if _, err := pool.Exec(ctx, `SET lock_timeout = 0`); err != nil {
		return fmt.Errorf("waiting for locks: %w", err)
	}
	if _, err := pool.Exec(ctx, `VACUUM ANALYZE inbox_event, effect, source, route`); err != nil {
		return fmt.Errorf("analysing the tables: %w", err)
	}
	return nil
}
