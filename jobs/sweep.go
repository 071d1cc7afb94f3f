package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/replay"
)

// SweeperConfig configures a [Sweeper]. Pool, Store and Logger are required.
type SweeperConfig struct {
	Pool   *pgxpool.Pool
	Store  *inbox.Effects
	Logger *slog.Logger

	// Every is the time between sweeps. 0 is the default of 10 s, -1 is never.
	Every time.Duration

	// Budget bounds one sweep; the next one continues where it ended. 0 is the default of 5 s.
	Budget time.Duration

	// Page is how many overdue effects one statement reads, and Chunk how many one transaction wakes.
	// They default to 5,000 and 500.
	Page, Chunk int

	// Timeout bounds each transaction of a sweep, so that a connection that stops answering does not
	// stop the sweeps. It defaults to a third of the shortest lease, from 2 s to 10 s.
	Timeout time.Duration

	// MinRunning is the least age at which a job that River shows as running may be replaced. A longer
	// lease raises it. 0 is the default of 10 s.
	MinRunning time.Duration

	// Expired is called after the commit for each attempt that was settled because its lease had ended,
	// if set. It must not block.
	Expired func(ctx context.Context, s inbox.Settlement)

	// Replays are swept too, if set. A running replay whose job is not live gets a new job, and a plan
	// that was never run expires.
	Replays *replay.Store

	// Peers knows which routes other live processes know. Wake-ups of those routes may have been handed
	// over, and are then left to those processes. nil is none.
	Peers *node.Peers

	// Fits returns why the sweeper must not sweep now; see [Config].
	Fits func() error

	// Now defaults to time.Now. It measures the budget and the time since the last successful sweep. The
	// database's clock decides which effects are overdue.
	Now func() time.Time
}

// SweepReport is what one sweep did.
type SweepReport struct {
	// Examined counts the overdue effects that were read.
	Examined int
	// Woken counts the effects that got a new job because theirs was not live.
	Woken int
	// Expired counts the attempts that were settled because their lease had ended.
	Expired int
	// TakenBack counts the wake-ups that had been handed over to processes that have disappeared since.
	TakenBack int
	// Left counts the effects that were left out because another transaction has locked a row that they
	// need. The next sweep tries them again, after the others.
	Left int
	// Freed counts the held effects that were free to run and were released. It is 0 unless something is
	// wrong.
	Freed int
	// PulledBack counts the times that were further ahead than their policy allows because the
	// database's clock had been ahead. The sweep corrected them.
	PulledBack int
	// Complete is false if the budget ended first.
	Complete bool
}

// Sweeper repairs lost wake-ups: every overdue effect whose job is not live gets a new job, and every
// attempt whose lease has ended is settled. It runs on every node, without a leader and without a lock
// on the sweep. It locks rows with SKIP LOCKED and checks them again under the lock.
type Sweeper struct {
	cfg    SweeperConfig
	routes []int32
	leases []int64 // microseconds, in the order of routes

	shortest time.Duration // of the leases

	cursor cursor
	left   leftOut

	// replaying means that some replays were running at the last check.
	replaying bool

	// unbegun is how long, in microseconds, the oldest effect that this process could begin had been due
	// when the last sweep began. Only effects count whose job is available and not yet fetched by any
	// process.
	unbegun atomic.Int64

	// swept is when the last sweep without an error ended, or when the sweeper started if there was
	// none.
	swept atomic.Pointer[time.Time]

	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// cursor is the last effect that was read.
type cursor struct {
	at time.Time
	id inbox.ID
}

// NewSweeper makes a Sweeper, or reports everything that is wrong with cfg.
func NewSweeper(cfg SweeperConfig) (*Sweeper, error) {
	var errs []error
	if cfg.Pool == nil || cfg.Store == nil || cfg.Logger == nil {
		errs = append(errs, errors.New("the sweeper needs a pool, the store of effects and a logger"))
	}
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	cfg.Budget = orDefault(cfg.Budget, 5*time.Second)
	cfg.Page = orDefault(cfg.Page, 5000)
	cfg.Chunk = orDefault(cfg.Chunk, 500)
	cfg.MinRunning = orDefault(cfg.MinRunning, 10*time.Second)
	if cfg.Budget < 0 || cfg.Page < 0 || cfg.Chunk < 0 || cfg.MinRunning < 0 {
		errs = append(errs, errors.New("the sweeper's budget, page, chunk and least running time must not be negative"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Fits == nil {
		cfg.Fits = func() error { return nil }
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &Sweeper{cfg: cfg}
	shortest := inbox.DefaultLease
	for id, route := range cfg.Store.Routes() {
		shortest = min(shortest, route.Lease)
		s.routes = append(s.routes, id)
		s.leases = append(s.leases, route.Lease.Microseconds())
	}
	s.shortest = shortest
	if cfg.Timeout == 0 {
		s.cfg.Timeout = min(max(shortest/3, 2*time.Second), 10*time.Second)
	}
	return s, nil
}

// Start starts sweeping immediately and then repeats it every Every, until Stop.
func (s *Sweeper) Start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil || s.cfg.Every < 0 {
		return
	}
	began := s.cfg.Now()
	s.swept.Store(&began)
	ctx, s.stop = context.WithCancel(ctx)
	s.done = make(chan struct{})
	go s.run(ctx, s.done)
}

// Stop cancels the current sweep and returns when it has ended.
func (s *Sweeper) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return
	}
	s.stop()
	<-s.done
}

func (s *Sweeper) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(s.cfg.Every)
	defer ticker.Stop()
	for replaysOnly := false; ; {
		fits := s.cfg.Fits() == nil
		if fits && !replaysOnly {
			s.sweep(ctx)
		}
		if !fits {
			s.replaying = false
		} else if woken, err := s.sweepReplays(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "sweeping replays", "error", clean(err.Error()))
		} else if woken > 0 {
			s.cfg.Logger.InfoContext(ctx, "replays woken", "woken", woken)
		}
		var soon <-chan time.Time
		if s.replaying {
			soon = time.After(replaySweepEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			replaysOnly = false
		case <-soon:
			replaysOnly = true
		}
	}
}

// replaySweepEvery is how often replays are checked while any run, because an operator waits for them.
const replaySweepEvery = 2 * time.Second

func (s *Sweeper) sweepReplays(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return s.SweepReplays(ctx)
}

// Swept returns when a sweep last succeeded, or when the sweeper started if none has. ok is false if it
// does not run.
func (s *Sweeper) Swept() (at time.Time, ok bool) {
	if at := s.swept.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

// Unbegun returns how long, at the last sweep, the oldest effect had been due that this process could
// begin and that no process has begun.
func (s *Sweeper) Unbegun() time.Duration {
	return time.Duration(s.unbegun.Load()) * time.Microsecond
}

func (s *Sweeper) sweep(ctx context.Context) {
	report, err := s.Sweep(ctx)
	if err == nil {
		now := s.cfg.Now()
		s.swept.Store(&now)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.cfg.Logger.WarnContext(ctx, "sweeping overdue effects", "error", clean(err.Error()))
	case report.PulledBack > 0:
		s.cfg.Logger.WarnContext(ctx, "times were further ahead than their policy allows, as if the database's clock had been ahead: pulled back", "pulled_back", report.PulledBack)
	case report.Freed > 0:
		s.cfg.Logger.WarnContext(ctx, "held effects were free to run", "freed", report.Freed)
	case report.Woken > 0 || report.Expired > 0 || report.TakenBack > 0:
		s.cfg.Logger.InfoContext(ctx, "overdue effects woken", "woken", report.Woken, "expired", report.Expired, "taken_back", report.TakenBack, "examined", report.Examined)
	}
}

// Sweep makes one sweep. If the previous sweep ran out of its budget, it continues there. It is not safe
// for concurrent use.
func (s *Sweeper) Sweep(ctx context.Context) (SweepReport, error) {
	pulled, err := s.pullBack(ctx)
	if err != nil {
		return SweepReport{PulledBack: pulled}, err
	}
	report, err := s.sweepOverdue(ctx)
	report.PulledBack = pulled
	if err != nil {
		return report, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	report.Freed, err = s.cfg.Store.CheckHeld(ctx)
	return report, err
}

// River's leader renews a lease of some seconds. If a leader was elected while the database's clock was ahead, and then
// died, its lease would keep other processes from the election until the clock reached its end, and River would clean
// up nothing. The sweep removes such a lease. A leader that is alive is elected again.
const unseatLeader = `DELETE FROM river_leader WHERE expires_at > now() + interval '1 minute'`

// pullBack runs first, so that the same sweep reads the effects that it makes due.
func (s *Sweeper) pullBack(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if _, err := s.cfg.Pool.Exec(ctx, unseatLeader); err != nil {
		return 0, fmt.Errorf("removing a leader from the future: %w", err)
	}
	return s.cfg.Store.PullBack(ctx)
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
