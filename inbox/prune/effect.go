package prune

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// An effect goes when it has been settled for longer than its horizon, and
// nobody asks for it any more: no duplicate that stays, no key, no open replay, and
// no stream that stands still before its number, which would then be missing. It stays while
// another effect of its event is not settled: the result of the event, which may still be made anew, is about
// all of them. One
// that an operator had settled in order to prune it goes at once. A replay that is to
// make an effect of the same route and event would make it once more if it were gone:
// until that replay has ended it stays, whatever is named.
const removableEffect = `
    e.state IN ('done', 'superseded', 'skipped', 'duplicate')
    AND (e.finished_at < $1::timestamptz OR e.reason = 'pruned')
    AND NOT EXISTS (
        SELECT FROM effect d
        WHERE d.duplicate_of = e.id AND (d.finished_at >= $1::timestamptz OR d.finished_at IS NULL))
    AND NOT EXISTS (SELECT FROM effect_key k WHERE k.effect_id = e.id)
    AND NOT EXISTS (
        SELECT FROM effect f
        WHERE f.event_id = e.event_id AND f.state NOT IN ('done', 'superseded', 'skipped', 'duplicate'))
    AND NOT EXISTS (
        SELECT FROM stream s
        WHERE s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash AND e.sequence_number > s.applied
            AND (s.gap_since IS NOT NULL OR s.blocked_by IS NOT NULL OR s.in_flight IS NOT NULL))
    AND NOT EXISTS (
        SELECT FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
        WHERE NOT $2::boolean AND i.effect_id = e.id AND ` + row.OpenItem + `)
    AND NOT EXISTS (
        SELECT FROM replay_item i JOIN replay plan ON plan.id = i.replay_id
        WHERE i.event_id = e.event_id AND i.action = 'create' AND i.route_id = e.route_id AND ` + row.OpenItem + `)`

const lockDueEffects = `
WITH page AS MATERIALIZED (
    SELECT id, route_id FROM effect WHERE id > $3::uuid AND id < $4::uuid ORDER BY id LIMIT $5),
due AS MATERIALIZED (
    SELECT e.id
    FROM page p
    JOIN effect e ON e.id = p.id
    WHERE p.route_id = ANY ($6::int[]) AND ` + removableEffect + `
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM page WHERE route_id = ANY ($6::int[])),
    (SELECT id FROM page ORDER BY id DESC LIMIT 1), coalesce((SELECT array_agg(id) FROM due), '{}')`

const deleteEffects = `
WITH gone AS (
    DELETE FROM effect e WHERE e.id = ANY ($3::uuid[]) AND ` + removableEffect + ` RETURNING e.id),
attempts AS (
    DELETE FROM effect_attempt a USING gone WHERE a.effect_id = gone.id RETURNING 1)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM attempts)`

// effects removes settled effects and their attempts.
func (s *pass) effects(ctx context.Context) error {
	for _, g := range s.byRoute(func(h Horizons) time.Duration { return h.Effects }) {
		w := &walk{
			name: "effect/" + g.horizon.String(), table: "effect", first: inbox.ID{}.String(), restartAfter: restartEvery,
			fractionDone: fractionBetween(s.retention.cutoff(2*g.horizon), s.retention.cutoff(g.horizon)),
			batch: func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error) {
				return s.effectBatch(ctx, tx, g, position, n)
			},
		}
		if err := s.runWalk(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (s *pass) effectBatch(ctx context.Context, tx pgx.Tx, g horizonGroup, position string, n int) (batchResult, error) {
	after, err := inbox.ParseID(position)
	if err != nil {
		return batchResult{}, err
	}
	var (
		got  batchResult
		last inbox.ID
		ids  []inbox.ID
	)
	before, replay := s.retention.now.Add(-g.horizon), s.run.includes(Replay)
	err = tx.QueryRow(ctx, lockDueEffects, before, replay, floor(after), s.retention.cutoff(g.horizon), n, g.ids).
		Scan(&got.examined, &got.due, &last, &ids)
	if err != nil {
		return batchResult{}, err
	}
	got.last = positionOf(last)
	if len(ids) == 0 {
		return got, nil
	}
	var attempts int64
	if err := tx.QueryRow(ctx, deleteEffects, before, replay, ids).Scan(&got.removed, &attempts); err != nil {
		return batchResult{}, err
	}
	s.report.Rows["effect_attempt"] += attempts
	return got, nil
}
