package prune

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// removableEffect is the condition for deleting an effect e. An effect goes when it has been settled for longer than its horizon ($1), and no guard needs it. One
// that an operator had settled in order to prune it goes at once. What an open replay lists goes if it is named ($2).
func removableEffect(without ...string) string {
	return `
    e.state IN ('done', 'superseded', 'skipped', 'duplicate')
    AND (e.finished_at < $1::timestamptz OR e.reason = 'pruned')` + inbox.KeptRows("effect", strings.NewReplacer(tableNames("{horizon}", "$1::timestamptz", "{replays}", "$2::boolean")...), without...)
}

// tableNames returns the replacements for the names in braces in the rules of guards: pairs, and each table under its own name.
func tableNames(pairs ...string) []string {
	return append(pairs, "{effect}", "effect", "{effect_key}", "effect_key", "{conflict}", "conflict")
}

func lockDueEffects(without ...string) string {
	return `
WITH page AS MATERIALIZED (
    SELECT id, route_id FROM effect WHERE id > $3::uuid AND id < $4::uuid ORDER BY id LIMIT $5),
due AS MATERIALIZED (
    SELECT e.id
    FROM page p
    JOIN effect e ON e.id = p.id
    WHERE p.route_id = ANY ($6::int[]) AND ` + removableEffect(without...) + `
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM page WHERE route_id = ANY ($6::int[])),
    (SELECT id FROM page ORDER BY id DESC LIMIT 1), coalesce((SELECT array_agg(id) FROM due), '{}')`
}

func deleteEffects(without ...string) string {
	return `
WITH gone AS (
    DELETE FROM effect e WHERE e.id = ANY ($3::uuid[]) AND ` + removableEffect(without...) + ` RETURNING e.id),
attempts AS (
    DELETE FROM effect_attempt a USING gone WHERE a.effect_id = gone.id RETURNING 1)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM attempts)`
}

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
	err = tx.QueryRow(ctx, s.sql.lockEffects, before, replay, floor(after), s.retention.cutoff(g.horizon), n, g.ids).
		Scan(&got.examined, &got.due, &last, &ids)
	if err != nil {
		return batchResult{}, err
	}
	got.last = positionOf(last)
	if len(ids) == 0 {
		return got, nil
	}
	var attempts int64
	if err := tx.QueryRow(ctx, s.sql.deleteEffects, before, replay, ids).Scan(&got.removed, &attempts); err != nil {
		return batchResult{}, err
	}
	s.report.Rows["effect_attempt"] += attempts
	return got, nil
}
