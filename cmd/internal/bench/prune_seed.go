package main

import (
	"context"
	"fmt"
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
