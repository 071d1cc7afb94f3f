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

	// Every is how often a sweep is made. 0 is the default of 10 s, -1 is never.
	Every time.Duration

	// Budget bounds one sweep; the next goes on where it ended. 0 is the default of
	// 5 s.
	Budget time.Duration

	// Page is how many overdue effects are looked at by one statement, and Chunk
	// how many are woken by one transaction. They default to 5,000 and 500.
	Page, Chunk int

	// Timeout bounds each transaction of a sweep, so that a connection that fell silent
	// does not end the sweeping. It defaults to a third of the shortest lease, from 2 s
	// to 10 s.
	Timeout time.Duration

	// MinRunning is the least age at which a job that says it is running may be
	// replaced; a longer lease makes it longer. 0 is the default of 10 s.
	MinRunning time.Duration

	// Expired is called for each attempt whose lease had ended and that was
	// settled, after the commit, if set. It must not block.
	Expired func(ctx context.Context, s inbox.Settlement)

	// Replays, if set, are looked after too: one that runs and whose job is not live
	// gets a new one, and a plan that nobody ran expires.
	Replays *replay.Store

	// Peers tells which routes other live processes know: their wake-ups may have been
	// handed over and are then left to them. nil is none.
	Peers *node.Peers

	// Fits returns why no sweep must be made now; see [Config].
	Fits func() error

	// Now defaults to time.Now. It measures the budget and since when no sweep has
	// succeeded; what is overdue is decided by the database's clock.
	Now func() time.Time
}

// SweepReport is what one sweep did.
type SweepReport struct {
	// Examined counts the overdue effects looked at.
	Examined int
	// Woken counts those that got a new job because theirs was not live.
	Woken int
	// Expired counts the leases that had ended, and were settled.
	Expired int
	// TakenBack counts the wake-ups that had been handed over to processes that have
	// vanished since.
	TakenBack int
	// Left counts the effects that were left out, because another transaction has locked a row that they
	// need. The next sweep tries them again, after the others.
	Left int
	// Freed counts the held effects that were free to run, and were set going. It is 0
	// as long as nothing is wrong.
	Freed int
	// PulledBack counts the times that were further ahead than their policy allows, because the
	// database's clock had been ahead. They were brought back.
	PulledBack int
	// Complete is false if the budget ended first.
	Complete bool
}

// Sweeper makes a lost wake-up harmless: every effect that is overdue and whose
// job is not live gets a new one, every lease that has ended is settled. It runs
// on every node, without a leader and without a lock of its own: rows are locked
// with SKIP LOCKED and looked at again under the lock.
type Sweeper struct {
	cfg    SweeperConfig
	routes []int32
	leases []int64 // microseconds, in the order of routes

	shortest time.Duration // of the leases

	cursor cursor
	left   leftOut

	// replaying: when replays were looked at last, there were some running.
	replaying bool

	// unbegun is for how many microseconds the oldest effect has been due, when the last sweep began,
	// that this process could begin: its job is there and no process has fetched it.
	unbegun atomic.Int64

	// swept is when a sweep ended without an error; the begin, before the first one.
	swept atomic.Pointer[time.Time]

	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// cursor is the last effect looked at.
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

// Start begins to sweep, now and then every so often, until Stop.
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

// Stop ends the sweep under way and returns when it has.
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

// replaySweepEvery is how often replays are looked at while there are any: a person
// waits for them.
const replaySweepEvery = 2 * time.Second

func (s *Sweeper) sweepReplays(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return s.SweepReplays(ctx)
}

// Swept is when a sweep last succeeded, or the sweeper began; ok is false if it does
// not run.
func (s *Sweeper) Swept() (at time.Time, ok bool) {
	if at := s.swept.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

// Unbegun is for how long the oldest effect has been due that this process could begin and that
// no process has begun, by the last sweep.
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

// Sweep makes one sweep, from where the one before it ended if its budget ran
// out. It is not for concurrent use.
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

// River's leader lives from lease to lease of some seconds. One that was elected while the database's clock was ahead, and died, would
// keep other processes from the election for as long as the clock was ahead, and River would clean up nothing. A leader that lives
// is elected again.
const unseatLeader = `DELETE FROM river_leader WHERE expires_at > now() + interval '1 minute'`

// pullBack comes first, so that the same sweep looks at the effects that it makes due.
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
		if s.cursor == (cursor{}) { // the first page has the oldest
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

// liveJob says of a job j, for an effect that is due and whose lease is given in
// microseconds, whether it will still wake the effect. One that is scheduled is moved
// by River's leader, who may be missing, and for much later than now it is no use to an
// effect that is due. One that is retryable failed: it waits in River's own backoff,
// which knows nothing of when the effect is due. One that runs may run nowhere. One that is
// available or began to run much later than now was written while the database's clock was
// ahead: River fetches the former no sooner, and the latter would look alive for as long.
const liveJob = `
    CASE j.state
    WHEN 'available' THEN j.scheduled_at <= now() + interval '30 seconds'
    WHEN 'scheduled' THEN j.scheduled_at BETWEEN now() - interval '30 seconds' AND now() + interval '30 seconds'
    WHEN 'running' THEN j.attempted_at BETWEEN now() - greatest(coalesce(r.lease, 0), $2::bigint) * interval '1 microsecond' AND now() + interval '30 seconds'
    ELSE false
    END`

// One page of the overdue, without locks: only those whose job is not live are
// looked at again. The cursor goes over all of them, so that live ones in front
// never hide lost ones.
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
	stranded []int64 // jobs that were handed over to nobody that lives
	unbegun  int64   // microseconds for which the oldest has been due that this process could begin
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

// The jobs of effects whose rows are locked, by primary key.
const jobsOfOverdue = `
SELECT a.id, coalesce(j.live, false), coalesce(j.running, false)
FROM unnest($1::uuid[], $3::bigint[], $4::bigint[]) AS a (id, job_id, lease)
LEFT JOIN LATERAL (
    SELECT ` + liveJob + ` AS live, j.state = 'running' AS running
    FROM river_job j, (SELECT a.lease) r
    WHERE j.id = a.job_id
    LIMIT 1) j ON true`

// wake locks the effects that may be lost, looks again, and acts. It returns those that it could
// lock. Nothing has happened if it returns an error.
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

// dead picks those whose job is not live.
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
