package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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

	sweeping sync.Mutex

	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
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

// sweep makes one sweep at a time.
func (s *Sweeper) sweep(ctx context.Context) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
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
