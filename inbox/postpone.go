package inbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// Postpone postpones an effect that this process does not carry out now, without spending an attempt. If because is not empty, the
// row records it for people, and for [Effects.RecallStrays] and [Effects.RecallPaused]. An effect that a person had sent again
// keeps that reason, because its attempt reports it.
func (e *Effects) Postpone(ctx context.Context, effect ID, by time.Duration, because reasons.Reason) error {
	if _, err := e.postpones.Do(ctx, postponement{effect: effect, by: by, reason: because}); err != nil {
		return fmt.Errorf("postponing effect %s: %w", effect, err)
	}
	return nil
}

// A row that another transaction has locked is being worked on.
const postponeEffects = `
WITH due AS MATERIALIZED (
    SELECT e.id, a.by, a.reason
    FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS a (id, by, reason)
    JOIN effect e ON e.id = a.id
    WHERE e.state IN ('pending', 'retry')
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
UPDATE effect e SET next_at = now() + d.by * interval '1 microsecond',
    reason = CASE WHEN d.reason = '' OR e.reason = 'resent' THEN e.reason ELSE d.reason END
FROM due d
WHERE e.id = d.id`

type postponement struct {
	effect ID
	by     time.Duration
	reason reasons.Reason // empty keeps the effect's
}

func (e *Effects) postponeGroup(ctx context.Context, asks []postponement) ([]struct{}, error) {
	ids, waits, reasons := make([]ID, len(asks)), make([]int64, len(asks)), make([]string, len(asks))
	for i, a := range asks {
		ids[i], waits[i], reasons[i] = a.effect, a.by.Microseconds(), string(a.reason)
	}
	_, err := e.pool.Exec(ctx, postponeEffects, ids, waits, reasons)
	return make([]struct{}, len(asks)), err
}

// A page of the effects that wait for a time, read through the index of due times, and
// those among them that were postponed for one of the reasons and whose route is one of
// the routes. It does not matter which of them are due anyway. An effect that a person
// had sent again keeps that reason.
const recallPostponed = `
WITH page AS MATERIALIZED (
    SELECT e.id, e.next_at, e.route_id, e.reason
    FROM effect e
    WHERE e.next_at > now() AND (e.next_at, e.id) > ($2::timestamptz, $3::uuid)
    ORDER BY e.next_at, e.id
    LIMIT 1000),
stray AS MATERIALIZED (
    SELECT e.id
    FROM page p
    JOIN effect e ON e.id = p.id
    WHERE p.reason = ANY ($4::text[]) AND p.route_id = ANY ($1::int[]) AND e.reason = ANY ($4::text[]) AND e.state IN ('pending', 'retry')
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
due AS (
    UPDATE effect e SET next_at = now(), reason = CASE WHEN e.reason = 'resent' THEN e.reason END
    FROM stray s
    WHERE e.id = s.id
    RETURNING e.job_id, e.route_id)
SELECT (SELECT coalesce(array_agg(coalesce(job_id, 0)), '{}') FROM due), (SELECT coalesce(array_agg(route_id), '{}') FROM due), l.next_at, l.id
FROM (SELECT 1) one
LEFT JOIN (SELECT next_at, id FROM page ORDER BY next_at DESC, id DESC LIMIT 1) l ON true`

// RecallStrays makes effects due that [Effects.Postpone] postponed because their routes were
// unknown, and whose routes this process knows, a page at a time. After each page it calls wake with the jobs of
// those effects, and the routes in the same order; an error of wake ends the recall. It
// returns how many effects became due.
func (e *Effects) RecallStrays(ctx context.Context, wake func(ctx context.Context, jobs []int64, routes []int32) error) (int, error) {
	return e.recall(ctx, "recalling effects of known routes", slices.Collect(maps.Keys(e.routes)), []reasons.Reason{reasons.Route}, wake)
}

// RecallPaused is RecallStrays for the effects that were postponed because of a pause and
// whose routes are not paused now. It includes effects that a person had
// sent again and that have not been attempted since.
func (e *Effects) RecallPaused(ctx context.Context, wake func(ctx context.Context, jobs []int64, routes []int32) error) (int, error) {
	running := slices.DeleteFunc(slices.Collect(maps.Keys(e.routes)), e.paused)
	return e.recall(ctx, "recalling effects of resumed routes", running, []reasons.Reason{reasons.Paused, reasons.Resent}, wake)
}

func (e *Effects) recall(ctx context.Context, doing string, of []int32, because []reasons.Reason, wake func(ctx context.Context, jobs []int64, routes []int32) error) (int, error) {
	recalled := 0
	for at, id := (time.Time{}), (ID{}); ; {
		var jobs []int64
		var routes []int32
		var lastAt *time.Time
		var last ID
		err := e.pool.QueryRow(ctx, recallPostponed, of, at, pgtype.UUID{Bytes: id, Valid: true}, because).Scan(&jobs, &routes, &lastAt, &last)
		if err == nil && len(jobs) > 0 {
			recalled += len(jobs)
			err = wake(ctx, jobs, routes)
		}
		if err != nil {
			return recalled, fmt.Errorf("%s: %w", doing, err)
		}
		if lastAt == nil {
			return recalled, nil
		}
		at, id = *lastAt, last
	}
}

// MarkUnfinished notes that a run of a waiting effect did not end, so that the
// next one commits its claim before it acts.
func (e *Effects) MarkUnfinished(ctx context.Context, effect ID) error {
	if _, err := e.pool.Exec(ctx, markUnfinished, effect); err != nil {
		return fmt.Errorf("marking effect %s: %w", effect, err)
	}
	return nil
}

const markUnfinished = `
UPDATE effect SET unfinished = true WHERE id = $1 AND state IN ('pending', 'retry')`
