package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/reasons"
)

// Overdue is an effect whose due time, or whose lease, has passed. The sweeper has
// locked its row.
type Overdue struct {
	Effect  ID
	State   EffectState
	RouteID int32
	JobID   int64
	Event   ID

	token       ID
	attempt     int
	version     int
	trigger     Trigger
	sendStarted time.Time
	age         time.Duration
	leaseUntil  time.Time
	unknown     time.Time // since when the outcome is unknown
	now         time.Time
	keyHash     []byte
	tenant      string // of the event
	shadow      bool   // it was only evaluated, so nothing can have happened
}

// The streams of the effects.
const readOverdueStreams = `
SELECT e.id, s.id, s.route_id, s.key_hash
FROM effect e
LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
WHERE e.id = ANY ($1::uuid[])`

// A row that another transaction has locked is being worked on.
const lockOverdue = `
SELECT e.id, e.event_id, e.state, e.route_id, coalesce(e.job_id, 0), e.lease_token, e.attempts, e.version, e.fresh_trigger, e.unfinished,
    e.send_started_at, e.lease_until, e.sequence_key_hash,
    coalesce((extract(epoch FROM now() - greatest(v.received_at, e.rearmed_at)) * 1000000)::bigint, 0), e.unknown_since, now(),
    coalesce(v.tenant, ''), e.shadow
FROM effect e
LEFT JOIN inbox_event v ON v.id = e.event_id
WHERE e.id = ANY ($1::uuid[]) AND e.next_at <= now()
ORDER BY e.id
FOR UPDATE OF e SKIP LOCKED`

// obtainOverdueTx locks the streams of effects, and returns the effects whose streams no
// other transaction has locked.
func (e *Effects) obtainOverdueTx(ctx context.Context, tx pgx.Tx, ids []ID) ([]ID, error) {
	var obtained []ID
	var b pgx.Batch
	locked := queueStreamLocks(&b, ids) // first in the order of locks; the next sweep looks at streams that are locked now
	missed := map[string]*orderStream{}
	b.Queue(readOverdueStreams, ids).Query(func(rows pgx.Rows) error {
		var id ID
		var stream *int64
		var routeID *int32
		var hash []byte
		_, err := pgx.ForEachRow(rows, []any{&id, &stream, &routeID, &hash}, func() error {
			if stream == nil || locked[streamName(*routeID, hash)] {
				obtained = append(obtained, id)
			} else {
				missed[streamName(*routeID, hash)] = &orderStream{routeID: *routeID, hash: append([]byte(nil), hash...)}
			}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	for _, s := range missed {
		e.locked.report(ctx, tx, s.routeID, s.hash)
	}
	return obtained, nil
}

// LockOverdueTx locks the effects that are still overdue, except those that are locked,
// or whose streams are locked, by another transaction.
func (e *Effects) LockOverdueTx(ctx context.Context, tx pgx.Tx, ids []ID) ([]Overdue, error) {
	var overdue []Overdue
	ids, err := e.obtainOverdueTx(ctx, tx, ids)
	if err != nil {
		return nil, fmt.Errorf("locking the streams of overdue effects: %w", err)
	}
	var b pgx.Batch
	b.Queue(lockOverdue, ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var (
				o                   Overdue
				fresh               *Trigger
				unfinished          bool
				sendStarted, leased *time.Time
				unknown             *time.Time
				age                 int64
			)
			err := rows.Scan(&o.Effect, &o.Event, &o.State, &o.RouteID, &o.JobID, &o.token, &o.attempt, &o.version, &fresh, &unfinished,
				&sendStarted, &leased, &o.keyHash, &age, &unknown, &o.now, &o.tenant, &o.shadow)
			if err != nil {
				return err
			}
			if sendStarted != nil {
				o.sendStarted = *sendStarted
			}
			if leased != nil {
				o.leaseUntil = *leased
			}
			if unknown != nil {
				o.unknown = *unknown
			}
			o.age = time.Duration(age) * time.Microsecond
			o.trigger = triggerOf(o.attempt, fresh, unfinished)
			overdue = append(overdue, o)
		}
		return rows.Err()
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("locking overdue effects: %w", err)
	}
	return overdue, nil
}

// Rewake is an overdue effect that gets a new job, because its own job is not live.
type Rewake struct {
	Effect ID

	// Unfinished: the job it had says that it is running.
	Unfinished bool
}

const rewakeEffects = `
UPDATE effect e
SET job_id = a.job_id, unfinished = e.unfinished OR a.unfinished
FROM unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS a (id, job_id, unfinished)
WHERE e.id = a.id`

// RewakeTx inserts new jobs for effects that the caller has locked, each at the effect's
// own place in the queue.
func (e *Effects) RewakeTx(ctx context.Context, tx pgx.Tx, rewakes []Rewake) error {
	if len(rewakes) == 0 {
		return nil
	}
	ids, unfinished := make([]ID, len(rewakes)), make([]bool, len(rewakes))
	for i, r := range rewakes {
		ids[i], unfinished[i] = r.Effect, r.Unfinished
	}
	wakes, err := e.ReserveWakes(ctx, sendTo(tx), ids)
	if err != nil {
		return fmt.Errorf("reserving jobs: %w", err)
	}
	var b pgx.Batch
	b.Queue(rewakeEffects, ids, JobsOf(wakes), unfinished)
	e.enqueuer.EnqueueTx(&b, wakes)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("waking overdue effects: %w", err)
	}
	return nil
}

// ExpireTx settles attempts whose lease ended before they did. If one may have happened
// at a target that cannot deduplicate, its effect is indeterminate; any other is retried
// under a new job, as long as its policy allows. ExpireTx leaves effects of routes that
// this process does not know to a process that does. It returns the settlements.
func (e *Effects) ExpireTx(ctx context.Context, tx pgx.Tx, overdue []Overdue) ([]Settlement, error) {
	group := make([]Settlement, 0, len(overdue))
	retries := 0
	for _, o := range overdue {
		route, ok := e.routes[o.RouteID]
		if !ok {
			continue
		}
		s := e.expired(o, route)
		if s.State.Waiting() {
			retries++
		}
		group = append(group, s)
	}
	if len(group) == 0 {
		return nil, nil
	}
	jobIDs, err := e.ReserveTx(ctx, tx, retries)
	if err != nil {
		return nil, err
	}
	var wakes []Wake
	for i := range group {
		if group[i].State.Waiting() {
			group[i].JobID = jobIDs[len(wakes)]
			wakes = append(wakes, Wake{JobID: group[i].JobID, Kind: WakeEffect, ID: group[i].Effect})
		}
	}
	if _, err := e.SettleLocked(ctx, tx, group, wakes); err != nil {
		return nil, fmt.Errorf("settling expired leases: %w", err)
	}
	return group, nil
}

func (e *Effects) expired(o Overdue, route EffectRoute) Settlement {
	s := Settlement{
		Effect: o.Effect, Event: o.Event, Tenant: o.tenant, Attempt: o.attempt, Token: o.token, RouteID: o.RouteID, SequenceKeyHash: o.keyHash,
		Reason: reasons.LeaseExpired, Failure: reasons.LeaseExpired, Outcome: AttemptLost, Trigger: o.trigger, StartedAt: o.leaseUntil.Add(-route.Lease),
	}
	outside := !route.InDatabase && !o.shadow
	if outside && !route.Idempotent && !o.sendStarted.IsZero() {
		s.State = EffectIndeterminate
		return s
	}
	s.Unknown = route.Idempotent && outside
	wait, giveUp := route.Retry.Next(Failure{Attempt: o.attempt, Age: o.age}, e.random)
	since := o.unknown
	if since.IsZero() && s.Unknown {
		since = s.StartedAt
	}
	if route.Forgotten(since, o.now.Add(wait)) {
		s.State, s.Reason = EffectIndeterminate, reasons.KeyWindow
		return s
	}
	if giveUp != "" {
		s.State, s.Reason = EffectDead, giveUp
		return s
	}
	s.State, s.After, s.Unfinished = EffectRetry, wait, true
	return s
}

func (e *Effects) ReserveTx(ctx context.Context, tx pgx.Tx, n int) ([]int64, error) {
	if n == 0 {
		return nil, nil
	}
	var ids []int64
	var b pgx.Batch
	e.enqueuer.ReserveTx(&b, n, &ids)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("reserving jobs: %w", err)
	}
	return ids, nil
}
