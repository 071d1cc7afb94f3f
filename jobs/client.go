package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Config configures a [Client]. Pool, Store, Routes and Logger are required, and
// a sender or a transactional for each route's target.
type Config struct {
	// Pool is River's own, at least 8 connections, apart from the gate's and the
	// store's, so that load on those cannot starve its heartbeats.
	Pool  *pgxpool.Pool
	Store *inbox.Effects

	// Routes are the routes this process knows, by id: the same as the store's.
	Routes map[int32]Route

	// Peers knows which routes other live processes know. The client hands over the wake-ups of
	// those routes if it does not know them itself. nil means that this process is alone.
	Peers *node.Peers

	// Senders and Transactionals carry effects out, by the name of the target.
	Senders        map[string]effect.Sender
	Transactionals map[string]effect.Transactional

	// Archive has bodies that prune has removed and that an effect needs, after a replay. nil has none.
	Archive *archive.Archive

	// Replays are carried out by this client, if set.
	Replays *replay.Store

	// Deliveries is the live load for which replays slow down. nil is no load.
	Deliveries Deliveries

	// Targets are the limits of targets, by name. A target without an entry has the defaults.
	Targets map[string]Target

	// After is the client of the same process that this one replaces, or nil. A target for which Unchanged returns true keeps its
	// breaker, its rate and the pause it asked for. Attempts of both clients share its slots. The servers of fetches keep their breakers
	// and pauses. Unchanged is required with After.
	After     *Client
	Unchanged func(target string) bool

	// Transactions is how many effects may act inside the database at once, each on a connection of
	// the store's pool. Set it below the size of that pool, or claims wait for a connection. 0 is
	// the default of 8.
	Transactions int

	Logger *slog.Logger

	// MaxWorkers is how many effects are carried out at once. 0 is the default of
	// 500.
	MaxWorkers int

	// FetchCooldown is the least time between two fetches of jobs. 0 is the default
	// of 10 ms.
	FetchCooldown time.Duration

	// FetchPollInterval is how long a job waits whose notification was lost, and how often an idle
	// process polls. 0 is the default of 400 ms.
	FetchPollInterval time.Duration

	// SweepEvery is how often the sweeper looks for overdue effects. 0 is the default of 10 s, -1
	// is off (tests only).
	SweepEvery time.Duration

	// MinRunning is the least age at which the sweeper may replace a job that River shows as
	// running. 0 is the default of 10 s.
	MinRunning time.Duration

	// StopTimeout is how long Stop lets attempts finish before it cancels them. 0
	// is the default of 20 s.
	StopTimeout time.Duration

	// Prune makes the passes of prune. nil leaves them to other processes.
	Prune *prune.Pruner

	// PruneEvery is how often a pass is made. 0 is the default of 1 min, -1 is never.
	PruneEvery time.Duration

	// Pruned is called after each pass of this process, if set. It must not block for
	// long.
	Pruned func(ctx context.Context, report prune.Report)

	// Fits returns why this process must not work on the tables as they are now, because
	// a newer program has migrated them, or nil while it may. The client calls it before
	// each wake-up, each step of a replay and each sweep; it must not block. While it
	// returns an error, newer processes do the effects, replays and prune. A nil Fits
	// always allows the work.
	Fits func() error

	// LeaderElectionDisabled keeps this process from River's maintenance.
	LeaderElectionDisabled bool

	// Observe is called at the end of each attempt, if set. It is also called without an outcome
	// when an effect was put off because its target is saturated, and when it was handed over or
	// put off because this process does not know its route; the names are empty then. It must not
	// block.
	Observe func(Report)

	// Tracer makes spans of attempts. nil makes none.
	Tracer Tracer

	// Random draws the jitter of waits, in [0, 1). It defaults to math/rand/v2's.
	Random func() float64

	// Now defaults to time.Now.
	Now func() time.Time
}

// The waits of a wake-up that cannot do its work now.
const (
	// longPause is for a target that this client lacks, and for a sealing key that this process
	// lacks.
	longPause = 30 * time.Second
	// faultPause is for a database that did not answer.
	faultPause = 2 * time.Second
	// lockPause is for a row that another transaction has locked.
	lockPause = time.Second
)

// Client works the effects: River's workers and the sweeper.
type Client struct {
	cfg         Config
	store       *inbox.Effects
	log         *slog.Logger
	now         func() time.Time
	random      func() float64
	routes      map[int32]*route
	limits      map[string]*limiter // by target
	fetchLimits map[string]*limiter // by the server that fetches ask
	previewer   *Previewer          // evaluates effects in shadow mode

	river   *river.Client[pgxTx]
	sweeper *Sweeper

	// stopping ends when Stop begins. Loops and waits that Stop need not wait for use it.
	stopping context.Context //nolint:containedctx // it is the client's own life
	stopAll  context.CancelFunc
	notifier *snoozeNotifier
	analyze  *analyzer
	loops    sync.WaitGroup // those that end with stopping
	throttle *replayThrottle

	unknown   *unknownRoutes
	resumed   chan struct{} // a pause has ended
	handOvers *handOvers
	missing   missingKeys
	claims    claimHealth
	begun     atomic.Int64 // when the last wake-up was begun, in nanoseconds of the Unix time

	mu      sync.Mutex
	started bool
	stopped bool
}

// New makes a Client, or reports everything that is wrong with cfg.
func New(cfg Config) (*Client, error) {
	var errs []error
	if cfg.Pool == nil {
		errs = append(errs, errors.New("jobs need a pool of their own"))
	}
	if cfg.Store == nil {
		errs = append(errs, errors.New("jobs need the store of effects"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("jobs need a logger"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, store: cfg.Store, log: cfg.Logger, now: cfg.Now, random: cfg.Random, resumed: make(chan struct{}, 1)}
	c.stopping, c.stopAll = context.WithCancel(context.Background())
	if c.now == nil {
		c.now = time.Now
	}
	if c.cfg.Fits == nil {
		c.cfg.Fits = func() error { return nil }
	}
	if c.random == nil {
		c.random = rand.Float64
	}
	c.routes = make(map[int32]*route, len(cfg.Routes))
	longest := time.Duration(0)
	for id, r := range cfg.Routes {
		checked, err := c.check(id, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("route %s/%s: %w", r.Source, r.Name, err))
			continue
		}
		c.routes[id] = checked
		longest = max(longest, checked.longest())
	}
	c.limit()
	c.cfg.After, c.cfg.Unchanged = nil, nil // or no client would ever be forgotten
	c.previewer = &Previewer{Routes: cfg.Routes, Senders: cfg.Senders, Transactionals: cfg.Transactionals, Stored: cfg.Store.Routes()}
	c.notifier = newSnoozeNotifier(cfg.Pool, c.now)
	c.unknown = newUnknownRoutes(c.now, c.random, c.log, cfg.Peers)
	c.handOvers = &handOvers{pool: cfg.Pool}
	c.analyze = &analyzer{pool: cfg.Pool, log: c.log}
	c.throttle = &replayThrottle{read: cfg.Deliveries, now: c.now}
	sweeper, err := NewSweeper(SweeperConfig{
		Pool: cfg.Pool, Store: cfg.Store, Every: cfg.SweepEvery, MinRunning: cfg.MinRunning, Logger: cfg.Logger, Now: c.now,
		Fits: c.cfg.Fits, Expired: c.reportExpired, Replays: cfg.Replays, Peers: cfg.Peers,
	})
	errs = append(errs, err)
	c.sweeper = sweeper
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c.river, err = c.newRiver(longest)
	if err != nil {
		return nil, fmt.Errorf("making the River client: %w", err)
	}
	return c, nil
}

// limit sets the limits of each route's target.
func (c *Client) limit() {
	workers := &crew{size: int64(orDefault(c.cfg.MaxWorkers, DefaultMaxWorkers))}
	c.limits = map[string]*limiter{}
	inside := map[string]chan struct{}{}
	for _, r := range c.routes {
		if c.limits[r.Target] == nil {
			c.limits[r.Target] = c.limitTarget(r.Target, workers)
		}
		if r.transactional != nil {
			inside[r.Target] = nil
		}
	}
	for target := range inside {
		inside[target] = make(chan struct{}, max(orDefault(c.cfg.Transactions, 8)/len(inside), 1))
	}
	for _, r := range c.routes {
		r.limit, r.turns = c.limits[r.Target], inside[r.Target]
	}
	c.limitFetches()
}

// limitTarget continues the limits that the client before has for the target, or makes new ones.
func (c *Client) limitTarget(target string, workers *crew) *limiter {
	if c.cfg.After != nil && c.cfg.Unchanged(target) {
		if before := c.cfg.After.limits[target]; before != nil {
			return before.after(workers)
		}
	}
	return newLimiter(c.cfg.Targets[target], workers, c.now, c.random)
}

func (c *Client) check(id int32, configured Route) (*route, error) {
	stored, ok := c.store.Route(id)
	if !ok {
		return nil, errors.New("the store does not know it")
	}
	r := &route{
		Route: configured, stored: stored, configured: true,
		sender: c.cfg.Senders[configured.Target], transactional: c.cfg.Transactionals[configured.Target],
	}
	if stored.InDatabase {
		if r.transactional == nil {
			return nil, fmt.Errorf("target %q is not one inside the database", r.Target)
		}
	} else {
		if r.sender == nil {
			return nil, fmt.Errorf("target %q has no sender", r.Target)
		}
		if r.sender.Idempotent() != stored.Idempotent {
			return nil, fmt.Errorf("target %q and the route disagree on whether it deduplicates", r.Target)
		}
	}
	most := stored.Lease - margin(stored.Lease)
	if r.Fetch != nil {
		fetch := *r.Fetch
		if fetch.Timeout == 0 {
			fetch.Timeout = min(10*time.Second, most/2)
		}
		if fetch.Fetcher == nil || fetch.Timeout < 0 || fetch.Timeout >= most {
			return nil, fmt.Errorf("a fetch needs a fetcher, and one of %s does not fit into a lease of %s", fetch.Timeout, stored.Lease)
		}
		r.Fetch = &fetch
		most -= fetch.Timeout
	}
	if r.Timeout == 0 {
		r.Timeout = min(10*time.Second, most)
	}
	if r.Timeout < 0 || r.Timeout > most {
		return nil, fmt.Errorf("an attempt of %s does not fit into a lease of %s", r.longest(), stored.Lease)
	}
	return r, nil
}

// longest is the longest that an attempt with its fetch takes.
func (r *route) longest() time.Duration {
	if r.Fetch == nil {
		return r.Timeout
	}
	return r.Fetch.Timeout + r.Timeout
}

// margin is the part at the end of a lease that is reserved for the settlement.
func margin(lease time.Duration) time.Duration { return min(lease/5, 5*time.Second) }

func (c *Client) newRiver(longest time.Duration) (*river.Client[pgxTx], error) {
	workers := river.NewWorkers()
	worker := &effectWorker{client: c}
	river.AddWorker(workers, worker)
	for id := range c.routes {
		river.AddWorkerArgs(workers, handedArgs{route: id}, &handedWorker{worker: worker})
	}
	river.AddWorker(workers, &rearmWorker{client: c})
	if c.cfg.Prune != nil {
		river.AddWorker(workers, &pruneWorker{client: c})
	}
	queues := map[string]river.QueueConfig{queueName: {MaxWorkers: orDefault(c.cfg.MaxWorkers, DefaultMaxWorkers)}}
	if c.cfg.Replays != nil {
		river.AddWorker(workers, &replayWorker{client: c})
		queues[replayQueue] = river.QueueConfig{MaxWorkers: replayWorkers, FetchPollInterval: replayPoll}
	}
	timeout := 10*time.Second + longest + 5*time.Second
	return river.NewClient(newQueueDriver(c.cfg.Pool), &river.Config{
		Queues:              queues,
		Workers:             workers,
		PeriodicJobs:        c.periodic(),
		Middleware:          []rivertype.Middleware{&guard{client: c}},
		Logger:              c.log,
		FetchCooldown:       orDefault(c.cfg.FetchCooldown, DefaultFetchCooldown),
		FetchPollInterval:   orDefault(c.cfg.FetchPollInterval, DefaultFetchPollInterval),
		FetchOnlyKnownKinds: true,
		MaxAttempts:         maxAttempts,
		JobTimeout:          timeout,
		// The rescuer is a second safety net below the sweeper, for jobs that run nowhere. It must
		// never take a job that still runs.
		RescueStuckJobsAfter: 2 * timeout,
		// Jobs are only wake-ups, so nothing reads a job that has ended.
		CompletedJobRetentionPeriod: time.Minute,
		CancelledJobRetentionPeriod: time.Minute,
		DiscardedJobRetentionPeriod: time.Hour,
		LeaderElectionDisabled:      c.cfg.LeaderElectionDisabled,
		// The indexes of river_job without those that the migration dropped.
		ReindexerIndexNames: []string{
			"river_job_pkey", "river_job_prioritized_fetching_index", "river_job_state_and_finalized_at_index", "river_job_unique_idx",
		},
	})
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Start starts the workers and the sweeper. They run until Stop, even if ctx ends first.
func (c *Client) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.stopped {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	c.begun.Store(c.now().UnixNano())
	if err := c.river.Start(ctx); err != nil {
		return fmt.Errorf("starting the River client: %w", err)
	}
	c.sweeper.Start(ctx)
	c.notifier.start(ctx)
	c.loops.Go(func() { c.analyze.run(c.stopping) })
	c.loops.Go(c.recallUnknown)
	c.loops.Go(c.recallResumed)
	c.started = true
	return nil
}

// Sweep makes a sweep now. The started client makes them by itself; a test whose clock has moved does not wait for the next one.
func (c *Client) Sweep(ctx context.Context) {
	if c.sweeper.cfg.Fits() == nil {
		c.sweeper.sweep(ctx)
	}
}

// Stop fetches no new wake-ups and lets attempts finish. After StopTimeout it cancels them. It
// returns when all have ended or ctx has.
func (c *Client) Stop(ctx context.Context) error {
	soft, cancel := context.WithTimeout(ctx, orDefault(c.cfg.StopTimeout, 20*time.Second))
	defer cancel()
	return c.finish(ctx, soft)
}

// Finish is like [Client.Stop], but cancels no attempt before hurry is closed. Attempts end by themselves, because each has a deadline.
func (c *Client) Finish(ctx context.Context, hurry <-chan struct{}) error {
	soft, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-hurry:
			cancel()
		case <-soft.Done():
		}
	}()
	return c.finish(ctx, soft)
}

// finish stops the client. It cancels the attempts that still run when soft ends.
func (c *Client) finish(ctx, soft context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := c.started && !c.stopped
	c.stopped = true
	c.stopAll()
	if !running {
		return nil
	}
	c.sweeper.Stop()
	c.notifier.end()
	c.loops.Wait()
	err := c.river.Stop(soft)
	if err != nil && ctx.Err() == nil {
		err = c.river.StopAndCancel(ctx)
	}
	if err != nil {
		return fmt.Errorf("stopping the River client: %w", err)
	}
	return nil
}
