package inbox

import (
	"context"
	"fmt"
	"time"
)

// PolicyMargin is how much further ahead than its policy allows a time may be before [Effects.PullBack] changes it. It covers what
// another process may be configured to wait for during a rolling deploy, and pauses that no policy names, such as those for a
// saturated target.
const PolicyMargin = 10 * time.Minute

// pullBackPage is how many effects one call reads. The next call continues the walk where this one ended.
const pullBackPage = 2000

// While the database's clock is ahead, each time that is written as "now plus a duration" is as far ahead as the clock.
// When the clock is right again, these times are further ahead than any policy asks for. The walk begins with those
// that are furthest ahead.
//
// Some rows show that the clock was wrong when they were written: the last attempt ended later than now, or the
// effect's job was made or began to run later than now. Such an effect waits from now on for as long as it was meant to
// wait then. A job may also have begun to run within minutes after next_at, because the wrong clock said that it was
// due. If its process then died, or claimed the effect when the clock was right again, the effect still waits. A time
// much later than next_at proves nothing, because the right clock may have postponed the effect since. A time after the
// end of a lease proves nothing either. For the other effects the longest wait that their state and their route allow is the limit. A waiting effect may have many others of a slow target before it, so its limit is
// that of a retry. A claim keeps the margin as well, because ending the lease of a running attempt would repeat the
// attempt. The statement skips a row that another transaction has locked, and the next walk looks at it.
const pullBack = `
WITH page AS MATERIALIZED (
    SELECT e.id, e.next_at, e.state, e.route_id, e.job_id
    FROM effect e
    WHERE e.next_at > now() + interval '30 seconds' AND (e.next_at, e.id) < ($1::timestamptz, $2::uuid)
    ORDER BY e.next_at DESC, e.id DESC
    LIMIT $3),
judged AS MATERIALIZED (
    SELECT p.id, p.next_at, least(
        CASE WHEN p.next_at > now() + (r.most + $8::bigint) * interval '1 microsecond'
            THEN now() + (r.most + CASE p.state WHEN 'claimed' THEN $8::bigint ELSE 0 END) * interval '1 microsecond' END,
        CASE WHEN w.at > now() + interval '30 seconds' THEN now() + greatest(p.next_at - w.at, interval '0') END) AS at
    FROM page p
    JOIN (SELECT v.route_id, s.state, s.most
        FROM unnest($4::int[], $5::bigint[], $6::bigint[], $7::bigint[]) AS v (route_id, lease, wait, patience),
            LATERAL (VALUES ('pending', v.wait), ('claimed', v.lease), ('retry', v.wait), ('held', v.patience)) AS s (state, most)) r
        ON r.route_id = p.route_id AND r.state = p.state
    LEFT JOIN LATERAL (
        SELECT max(x.at) AS at FROM (
            SELECT unnest(ARRAY[j.attempted_at, j.created_at]) AS at FROM river_job j WHERE j.id = p.job_id AND p.state <> 'held'
            UNION ALL
            (SELECT a.finished_at FROM effect_attempt a WHERE a.effect_id = p.id AND p.state = 'retry' ORDER BY a.version DESC, a.attempt DESC LIMIT 1)) x
        WHERE x.at <= p.next_at + CASE p.state WHEN 'claimed' THEN interval '0' ELSE interval '5 minutes' END) w ON true),
locked AS MATERIALIZED (
    SELECT e.id, j.at
    FROM judged j
    JOIN effect e ON e.id = j.id AND e.next_at = j.next_at
    WHERE j.at IS NOT NULL
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
pulled AS (
    UPDATE effect e
    SET next_at = l.at, lease_until = CASE WHEN e.state = 'claimed' THEN l.at ELSE e.lease_until END
    FROM locked l
    WHERE e.id = l.id
    RETURNING e.id)
SELECT (SELECT count(*) FROM pulled), (SELECT count(*) FROM page), l.next_at, l.id
FROM (SELECT 1) one
LEFT JOIN (SELECT next_at, id FROM page ORDER BY next_at, id LIMIT 1) l ON true`

// A gap that begins later than now began while the clock was ahead. Its patience would end as much later.
const pullBackGaps = `
WITH ahead AS MATERIALIZED (
    SELECT s.id FROM stream s
    WHERE s.gap_since > now() + interval '30 seconds'
    ORDER BY s.gap_since DESC
    LIMIT $1
    FOR UPDATE OF s SKIP LOCKED)
UPDATE stream s SET gap_since = now() FROM ahead a WHERE s.id = a.id`

// A replay waits for the next step of its rate: 100 effects at most, or one.
const pullBackReplays = `
UPDATE replay SET next_at = now()
WHERE state = 'running' AND next_at > now() + $1::bigint * interval '1 microsecond' + coalesce(100 / rate, 0) * interval '1 second'`

// pullBackCursor is the last effect that the walk has read. The zero value starts a new walk.
type pullBackCursor struct {
	at time.Time
	id ID
}

// PullBack brings back times that are further ahead than their policy allows, because they were written while the database's
// clock was ahead: when effects are due, when leases and the patience of gaps end, and when replays make their next step. It looks at
// a page of effects of the routes that this process knows, and returns how many times it has changed. [Effects.PulledBack] counts
// them. The sweeper calls it; it is not for concurrent use.
func (e *Effects) PullBack(ctx context.Context) (pulled int, err error) {
	defer func() { e.pulledBack.Add(uint64(pulled)) }()
	tag, err := e.pool.Exec(ctx, pullBackGaps, pullBackPage)
	if err != nil {
		return pulled, fmt.Errorf("pulling back gaps from the future: %w", err)
	}
	pulled = int(tag.RowsAffected())
	if tag, err = e.pool.Exec(ctx, pullBackReplays, PolicyMargin.Microseconds()); err != nil {
		return pulled, fmt.Errorf("pulling back replays from the future: %w", err)
	}
	pulled += int(tag.RowsAffected())
	var ids []int32
	var leases, waits, patience []int64
	for id, r := range e.routes {
		ids, leases, patience = append(ids, id), append(leases, r.Lease.Microseconds()), append(patience, r.Order.Patience.Microseconds())
		waits = append(waits, max(r.Retry.withDefaults().Max, maxRetryAfter).Microseconds())
	}
	from := e.pulledTo
	if from == (pullBackCursor{}) {
		from = pullBackCursor{at: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	var effects, seen int
	var last *time.Time
	var lastID ID
	err = e.pool.QueryRow(ctx, pullBack, from.at, from.id, pullBackPage, ids, leases, waits, patience, PolicyMargin.Microseconds()).
		Scan(&effects, &seen, &last, &lastID)
	if err != nil {
		return pulled, fmt.Errorf("pulling back effects from the future: %w", err)
	}
	e.pulledTo = pullBackCursor{}
	if seen == pullBackPage && last != nil {
		e.pulledTo = pullBackCursor{at: *last, id: lastID}
	}
	return pulled + effects, nil
}

// FarAhead is how much later an effect must be due than the job that wakes it before [Effects.PullBackOne] is called.
const FarAhead = 5 * time.Minute

const pullBackOne = `
UPDATE effect SET next_at = now()
WHERE id = $1 AND job_id = $2 AND state IN ('pending', 'retry') AND next_at > now() + $3::bigint * interval '1 microsecond'`

// PullBackOne makes one effect due. The worker calls it if the effect's job is due and the effect is due much later: the
// database's clock was ahead when the effect was postponed, and River scheduled the job by the clock of a process, which
// was right. When the job runs again, it overwrites the time by which [Effects.PullBack] would recognise such an effect.
// PullBackOne returns false if it has changed nothing, because the effect has another job, does not wait, or is due soon.
func (e *Effects) PullBackOne(ctx context.Context, effect ID, jobID int64) (bool, error) {
	tag, err := e.pool.Exec(ctx, pullBackOne, effect, jobID, FarAhead.Microseconds())
	if err != nil {
		return false, fmt.Errorf("pulling back an effect from the future: %w", err)
	}
	e.pulledBack.Add(uint64(tag.RowsAffected()))
	return tag.RowsAffected() > 0, nil
}

// PulledBack is how many times this process has pulled back since it began.
func (e *Effects) PulledBack() uint64 { return e.pulledBack.Load() }
