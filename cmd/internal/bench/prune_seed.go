package main

import (
	"context"
	"fmt"
	"time"
)

// Rows as the gate writes them, without effects, which go before their events:
// past their horizon 100 to 130 days ago, the others within 80 days.
const seedEvents = `
INSERT INTO oncegate.inbox_event (id, source_id, event_id, type, body_sha256, occurred_at, received_at, admission, class, body_id,
    item, body_offset, body_length, id_unsigned, suspected_replay)
SELECT r.id, s.id, 'seed_' || r.n, 'invoice.paid', sha256(r.n::text::bytea), r.at, r.at, 'ok', 'default', r.id, 0, 0, 2048, false, false
FROM (SELECT min(id) AS id FROM oncegate.source) s,
    LATERAL (
        SELECT n, at, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid AS id
        FROM generate_series($1::bigint, $2::bigint) n,
            LATERAL (SELECT now() - make_interval(secs => $3::float8 + $4::float8 * (($2::bigint - n)::float8 / greatest($2::bigint - $1::bigint, 1))) AS at) a) r`

func (b *pruneBench) seed(ctx context.Context, n int, expired bool) error {
	const day = 86400.0
	from, span := 0.0, 80*day
	if expired {
		from, span = 100*day, 30*day
	}
	for n > 0 {
		rows := min(n, 250_000)
		if _, err := b.db.Exec(ctx, seedEvents, b.seeded+1, b.seeded+rows, from, span); err != nil {
			return fmt.Errorf("writing rows: %w", err)
		}
		b.seeded, n = b.seeded+rows, n-rows
	}
	return nil
}

// watchSize writes and prunes as much again and again, under the table's own
// autovacuum settings, and notes how large the table stays.
func (b *pruneBench) watchSize(ctx context.Context, r *pruneReport) error {
	for _, sql := range []string{`ALTER SYSTEM SET autovacuum_naptime = '1s'`, `SELECT pg_reload_conf()`} {
		if _, err := b.db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("setting autovacuum's pace: %w", err)
		}
	}
	for round := 0; ; round++ {
		var size churnSize
		err := b.db.QueryRow(ctx, `SELECT pg_table_size(c) / 1048576.0, pg_indexes_size(c) / 1048576.0 FROM to_regclass('oncegate.inbox_event') c`).
			Scan(&size.TableMiB, &size.IndexMiB)
		if err != nil {
			return fmt.Errorf("measuring the table: %w", err)
		}
		r.Churn = append(r.Churn, size)
		progress("churn %d/%d: table %.0f MiB, indexes %.0f MiB", round, b.churn, size.TableMiB, size.IndexMiB)
		if round == b.churn {
			return nil
		}
		report, err := b.prune(ctx, 5*time.Minute, nil)
		if err != nil {
			return err
		}
		removed := report.Rows["inbox_event"]
		if removed == 0 {
			removed = int64(b.expired)
		}
		if err := b.vacuumed(ctx); err != nil {
			return err
		}
		if err := b.seed(ctx, int(removed), true); err != nil {
			return err
		}
	}
}

// vacuumed waits until autovacuum has been over what prune left, at most a minute.
func (b *pruneBench) vacuumed(ctx context.Context) error {
	for range 60 {
		var dead, live int64
		err := b.db.QueryRow(ctx, `SELECT n_dead_tup, n_live_tup FROM pg_stat_all_tables WHERE relid = to_regclass('oncegate.inbox_event')`).Scan(&dead, &live)
		if err != nil {
			return fmt.Errorf("reading the statistics: %w", err)
		}
		if dead < live/20+5000 {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
