package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Rows as the gate writes them, without effects, which are pruned before their events. They are past their horizon, 100
// to 130 days old, or within the last 80 days.
const seedEvents = `
INSERT INTO oncegate.inbox_event (id, source_id, event_id, type, body_sha256, occurred_at, received_at, admission, class, body_id,
    item, body_offset, body_length, id_unsigned, suspected_replay)
SELECT r.id, s.id, 'evt_' || md5(r.n::text), 'invoice.paid', sha256(r.n::text::bytea), r.at, r.at, 'ok', 'default', r.id, 0, 0, 2048, false, false
FROM (SELECT min(id) AS id FROM oncegate.source) s,
    LATERAL (
        SELECT n, at, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid AS id
        FROM generate_series($1::bigint, $2::bigint) n,
            LATERAL (SELECT now() - make_interval(secs => $3::float8 + $4::float8 * (($2::bigint - n)::float8 / greatest($2::bigint - $1::bigint, 1))) AS at) a) r`

// The table's indexes, which are made again once the rows are there.
const readIndexes = `
SELECT coalesce(
        'ALTER TABLE oncegate.inbox_event DROP CONSTRAINT ' || quote_ident(c.conname),
        'DROP INDEX ' || i.indexrelid::regclass),
    coalesce(
        'ALTER TABLE oncegate.inbox_event ADD CONSTRAINT ' || quote_ident(c.conname) || ' ' || pg_get_constraintdef(c.oid),
        pg_get_indexdef(i.indexrelid))
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
WHERE i.indrelid = 'oncegate.inbox_event'::regclass
ORDER BY i.indexrelid`

// seedAll writes all rows of the gate and makes the indexes afterwards, because inserting row by row into them takes
// three times as long. Nothing is delivered meanwhile.
func (b *pruneBench) seedAll(ctx context.Context) error {
	rows, err := b.db.Query(ctx, readIndexes)
	if err != nil {
		return fmt.Errorf("reading the indexes: %w", err)
	}
	var drops, makes []string
	var drop, remake string
	_, err = pgx.ForEachRow(rows, []any{&drop, &remake}, func() error {
		drops, makes = append(drops, drop), append(makes, remake)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the indexes: %w", err)
	}
	run := func(statements []string) error {
		for _, sql := range statements {
			if _, err := b.db.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	}
	if err := run(append(drops, `SET maintenance_work_mem = '512MB'`)); err != nil {
		return err
	}
	if err := b.seed(ctx, b.rows-b.expired, false); err != nil {
		return err
	}
	if err := b.seed(ctx, b.expired, true); err != nil {
		return err
	}
	return run(append(makes, `VACUUM (ANALYZE) oncegate.inbox_event`, `CHECKPOINT`))
}

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
