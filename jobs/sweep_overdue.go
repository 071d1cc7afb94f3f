package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// cursor is the last effect that was read.
type cursor struct {
	at time.Time
	id inbox.ID
}

func (s *Sweeper) sweepOverdue(ctx context.Context) (SweepReport, error) {
	var report SweepReport
	began := s.cfg.Now()
	for s.cfg.Now().Sub(began) < s.cfg.Budget {
		page, err := s.page(ctx)
		if err != nil {
			return report, err
		}
		if s.cursor == (cursor{}) { // the first page has the oldest effects
			s.unbegun.Store(page.unbegun)
		}
		report.Examined += page.examined
		n, err := s.takeBack(ctx, page.stranded)
		if report.TakenBack += n; err != nil {
			return report, err
		}
		if err := s.wakeLost(ctx, page.lost, began, &report); err != nil {
			return report, err
		}
		s.cursor = page.last
		if page.examined < s.cfg.Page {
			s.cursor = cursor{}
			report.Complete = true
			return report, nil
		}
	}
	return report, nil
}

// liveJob is true of a job j that will still wake its effect, which is due; r.lease is the lease in
// microseconds. River's leader moves scheduled jobs. It may be missing, and a job scheduled for much
// later does not help an effect that is due. A retryable job failed and waits in River's own backoff,
// which does not know when the effect is due. A job in state running may run nowhere. A job that is
// available, or began to run, much later than now was written while the database's clock was ahead:
// River would not fetch the former before that time, and the latter would look alive until then.
const liveJob = `
    CASE j.state
    WHEN 'available' THEN j.scheduled_at <= now() + interval '30 seconds'
    WHEN 'scheduled' THEN j.scheduled_at BETWEEN now() - interval '30 seconds' AND now() + interval '30 seconds'
    WHEN 'running' THEN j.attempted_at BETWEEN now() - greatest(coalesce(r.lease, 0), $2::bigint) * interval '1 microsecond' AND now() + interval '30 seconds'
    ELSE false
    END`

// The statement reads one page of overdue effects without locks. Only effects whose job is not live are
// checked again. The cursor passes over all of them, so that live ones at the front never hide lost
// ones.
const pageOverdue = `
WITH page AS MATERIALIZED (
    SELECT e.id, e.next_at, e.state, e.route_id, e.job_id
    FROM effect e
    WHERE e.next_at <= now() AND (e.next_at, e.id) > ($3::timestamptz, coalesce($4::uuid, '00000000-0000-0000-0000-000000000000'))
    ORDER BY e.next_at, e.id
    LIMIT $1),
judged AS (
    SELECT p.id, p.job_id, p.state = 'claimed' OR NOT coalesce(j.live, false) AS lost,
        j.handed AND NOT p.route_id = ANY ($5::int[] || $7::int[]) AS stranded,
        j.available AND p.route_id = ANY ($5::int[]) AND p.state <> 'claimed' AS waits, p.next_at
    FROM page p
    LEFT JOIN unnest($5::int[], $6::bigint[]) AS r (route_id, lease) ON r.route_id = p.route_id
    LEFT JOIN LATERAL (
        SELECT ` + liveJob + ` AS live, j.state = 'available' AND j.kind LIKE '` + handedPrefix + `%' AS handed,
            j.state = 'available' AS available
        FROM river_job j
        WHERE j.id = p.job_id
        LIMIT 1) j ON true)
SELECT (SELECT count(*) FROM page),
    coalesce((SELECT array_agg(id) FROM judged WHERE lost), '{}'),
    coalesce((SELECT array_agg(job_id) FROM judged WHERE stranded), '{}'),
    coalesce((SELECT (extract(epoch FROM now() - min(next_at)) * 1000000)::bigint FROM judged WHERE waits), 0),
    coalesce((SELECT max(next_at) FROM page), now()),
    (SELECT id FROM page ORDER BY next_at DESC, id DESC LIMIT 1)`

type page struct {
	examined int
	lost     []inbox.ID
	stranded []int64 // jobs that were handed over to processes that no longer live
	unbegun  int64   // microseconds for which the oldest effect that this process could begin has been due
	last     cursor
}

func (s *Sweeper) page(ctx context.Context) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var p page
	err := s.cfg.Pool.QueryRow(ctx, pageOverdue, s.cfg.Page, s.cfg.MinRunning.Microseconds(),
		s.cursor.at, s.cursor.id, s.routes, s.leases, s.cfg.Peers.Routes()).Scan(&p.examined, &p.lost, &p.stranded, &p.unbegun, &p.last.at, &p.last.id)
	if err != nil {
		return page{}, fmt.Errorf("reading overdue effects: %w", err)
	}
	return p, nil
}

// The statement reads the jobs of effects whose rows are locked, by primary key.
const jobsOfOverdue = `
SELECT a.id, coalesce(j.live, false), coalesce(j.running, false)
FROM unnest($1::uuid[], $3::bigint[], $4::bigint[]) AS a (id, job_id, lease)
LEFT JOIN LATERAL (
    SELECT ` + liveJob + ` AS live, j.state = 'running' AS running
    FROM river_job j, (SELECT a.lease) r
    WHERE j.id = a.job_id
    LIMIT 1) j ON true`

// wake locks the effects that may be lost, checks them again, and wakes or settles them. It returns the
// effects that it could lock. If it returns an error, nothing has changed.
func (s *Sweeper) wake(ctx context.Context, ids []inbox.ID, report *SweepReport) (obtained []inbox.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	var settled []inbox.Settlement
	woken := 0
	err = pgx.BeginFunc(ctx, s.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, boundRowLocks); err != nil {
			return err
		}
		overdue, err := s.cfg.Store.LockOverdueTx(ctx, tx, ids)
		if err != nil {
			return err
		}
		var expired, waiting []inbox.Overdue
		for _, o := range overdue {
			obtained = append(obtained, o.Effect)
			if o.State == inbox.EffectClaimed {
				expired = append(expired, o)
			} else {
				waiting = append(waiting, o)
			}
		}
		rewakes, err := s.dead(ctx, tx, waiting)
		if err != nil {
			return err
		}
		if err := s.cfg.Store.RewakeTx(ctx, tx, rewakes); err != nil {
			return err
		}
		if settled, err = s.cfg.Store.ExpireTx(ctx, tx, expired); err != nil {
			return err
		}
		woken = len(rewakes)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("waking overdue effects: %w", err)
	}
	report.Woken += woken
	report.Expired += len(settled)
	if s.cfg.Expired != nil {
		for i := range settled {
			s.cfg.Expired(ctx, settled[i])
		}
	}
	return obtained, nil
}

// dead returns the effects whose job is not live.
func (s *Sweeper) dead(ctx context.Context, tx pgx.Tx, waiting []inbox.Overdue) ([]inbox.Rewake, error) {
	if len(waiting) == 0 {
		return nil, nil
	}
	ids, jobIDs, leases := make([]inbox.ID, len(waiting)), make([]int64, len(waiting)), make([]int64, len(waiting))
	for i, o := range waiting {
		route, _ := s.cfg.Store.Route(o.RouteID)
		ids[i], jobIDs[i], leases[i] = o.Effect, o.JobID, route.Lease.Microseconds()
	}
	rows, err := tx.Query(ctx, jobsOfOverdue, ids, s.cfg.MinRunning.Microseconds(), jobIDs, leases)
	if err != nil {
		return nil, fmt.Errorf("reading their jobs: %w", err)
	}
	defer rows.Close()
	var rewakes []inbox.Rewake
	for rows.Next() {
		var r inbox.Rewake
		var live bool
		if err := rows.Scan(&r.Effect, &live, &r.Unfinished); err != nil {
			return nil, fmt.Errorf("reading their jobs: %w", err)
		}
		if !live {
			rewakes = append(rewakes, r)
		}
	}
	return rewakes, rows.Err()
}
