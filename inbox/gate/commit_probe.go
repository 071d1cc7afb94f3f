package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/sleep"
)

// The times of the commit probe.
const (
	// CommitProbeEvery is how often a commit is tried.
	CommitProbeEvery = 5 * time.Second

	// commitRetry is the pause after a try that failed, so that the end of the trouble is seen.
	commitRetry = time.Second

	// CommitProbeSlow is how long a commit may take, or fail, before the process is not ready.
	CommitProbeSlow = 5 * time.Second
)

// CommitProbeConfig configures a [CommitProbe]. Pool and Asking are required.
type CommitProbeConfig struct {
	// Pool is the pool whose commits are tested: the gate's, if there is one.
	Pool *pgxpool.Pool

	// Asking is another pool, through which the probe asks the server about a commit that does
	// not end.
	Asking *pgxpool.Pool

	// Durability is what its commits wait for. It overrides the sessions of Pool. Empty is [inbox.DurabilityServer]. Pass
	// [Gate.Weakest], because a process that can acknowledge some deliveries must stay in use.
	Durability inbox.Durability

	// Committed is called after each commit, with the time at which it began and whether the server names synchronous
	// standbys; it may be nil.
	Committed func(began time.Time, named bool)

	// Logger defaults to discarding.
	Logger *slog.Logger

	// Now is the machine's clock. It is required.
	Now func() time.Time
}

// CommitProbe commits a small transaction every few seconds, as the gate would. It thereby
// notices a database that takes no commits even without deliveries: one that is read-only or
// full, one whose tables are locked, and one that waits for a synchronous standby that does not
// answer. It tries one commit at a time, for as long as it takes, because an abandoned commit
// would continue to wait inside the server, and so would the next one.
type CommitProbe struct {
	cfg  CommitProbeConfig
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	began    time.Time // of the current try; zero between two
	pid      uint32    // the server process of the current try; 0 before there is one
	abandon  context.CancelFunc
	failing  time.Time // of the first try that failed since one succeeded; zero if none
	failed   time.Time // of the last one
	problem  string
	unmet    bool   // it failed because the server names no standby
	waitsFor string // what the current try waits for, as the server reports it
}

// NewCommitProbe checks the configuration and makes a probe; Start starts it.
func NewCommitProbe(cfg CommitProbeConfig) (*CommitProbe, error) {
	if cfg.Pool == nil || cfg.Asking == nil || cfg.Now == nil {
		return nil, errors.New("commit probe: Pool, Asking and Now are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &CommitProbe{cfg: cfg}, nil
}

// Start begins to try. It returns nil.
func (p *CommitProbe) Start(ctx context.Context) error {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done.Go(func() { p.run(ctx) })
	p.done.Go(func() { p.watchCommit(ctx) })
	return nil
}

// Stop ends the probe, and abandons a commit that has not ended. It may be called twice.
func (p *CommitProbe) Stop(context.Context) error {
	if p.stop != nil {
		p.stop()
	}
	p.done.Wait()
	return nil
}

// Ready returns an error while the current commit has waited for [CommitProbeSlow], or all that
// were tried for that long have failed. It returns [ErrNoStandby] at once if the durability needs a standby and the server names none. One
// successful commit ends it.
func (p *CommitProbe) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	if waiting := now.Sub(p.began); !p.began.IsZero() && waiting >= CommitProbeSlow {
		if p.waitsFor == syncRep {
			return fmt.Errorf("a commit has been waiting for a synchronous standby for %s: see that the standby runs, or take it out of synchronous_standby_names", waiting.Truncate(time.Second))
		}
		return fmt.Errorf("a commit has not been answered for %s", waiting.Truncate(time.Second))
	}
	if p.unmet {
		return ErrNoStandby // nothing can be acknowledged, and waiting does not help
	}
	if !p.failing.IsZero() && p.failed.Sub(p.failing) >= CommitProbeSlow {
		return fmt.Errorf("the database has taken no commit for %s: %s", now.Sub(p.failing).Truncate(time.Second), p.problem)
	}
	return nil
}

func (p *CommitProbe) run(ctx context.Context) {
	for {
		began := p.cfg.Now()
		named, err := p.try(ctx, began)
		if ctx.Err() != nil {
			return
		}
		p.recordResult(ctx, began, named, err)
		pause := CommitProbeEvery
		if err != nil {
			pause = commitRetry
		}
		if sleep.For(ctx, pause) != nil {
			return
		}
	}
}

// recordResult records the result of a try, and logs the first failure.
func (p *CommitProbe) recordResult(ctx context.Context, began time.Time, named bool, err error) {
	p.mu.Lock()
	p.began, p.pid, p.abandon, p.waitsFor = time.Time{}, 0, nil, ""
	first := p.failing.IsZero()
	p.unmet = errors.Is(err, ErrNoStandby)
	if err == nil {
		p.failing = time.Time{}
	} else {
		p.failed, p.problem = p.cfg.Now(), publicErrorText(err)
		if first {
			p.failing = p.failed
		}
	}
	p.mu.Unlock()
	switch {
	case err != nil && first:
		p.cfg.Logger.WarnContext(ctx, "the database did not take a commit", slog.String("reason", publicErrorText(err)))
	case err == nil && !first:
		p.cfg.Logger.InfoContext(ctx, "the database takes commits again")
	}
	if err == nil && p.cfg.Committed != nil {
		p.cfg.Committed(began, named)
	}
}

// The locks that the gate needs on its tables, without a row of them, so that the probe also
// notices a table lock of another session and a missing right.
const lockGate = `LOCK TABLE ONLY inbox_event, ONLY effect IN ROW EXCLUSIVE MODE`

// try commits once. It sets no deadline, and the server must have none either: a COMMIT that is
// cut off while it waits for a standby reports success.
func (p *CommitProbe) try(ctx context.Context, began time.Time) (named bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.began, p.abandon = began, cancel
	p.mu.Unlock()
	timed, stop := context.WithTimeout(ctx, CommitProbeSlow)
	conn, err := p.cfg.Pool.Acquire(timed)
	stop()
	if err != nil {
		return false, fmt.Errorf("getting a connection: %w", err)
	}
	defer conn.Release()
	p.mu.Lock()
	p.pid = session.PID(conn.Conn())
	p.mu.Unlock()
	session.TakeWarning(conn.Conn())
	b := &pgx.Batch{}
	committed := false
	b.Queue("BEGIN")
	b.Queue("SET LOCAL statement_timeout = 0")
	b.Queue(setCommit, p.cfg.Durability.SynchronousCommit())
	b.Queue(lockGate)
	b.Queue(emitMessage)
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	queueReadStandbys(b, &named)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Conn().Close(closing) // also ends the rest of the transaction
		return false, err
	}
	if !committed || session.TakeWarning(conn.Conn()) {
		return false, errors.New("the commit was not confirmed")
	}
	if !named && p.cfg.Durability.NeedsStandby() {
		return false, ErrNoStandby
	}
	return named, nil
}

// syncRep is what PostgreSQL calls waiting for a synchronous standby.
const syncRep = "SyncRep"

// If the server process is idle, the statement or its answer was lost.
const readWait = `
SELECT coalesce(wait_event, ''), state IS DISTINCT FROM 'idle' FROM pg_stat_activity WHERE pid = $1`

// watchCommit asks the server about a commit that does not end. If the server no longer knows it,
// it was lost with its connection: watchCommit abandons it, and the next one is tried.
func (p *CommitProbe) watchCommit(ctx context.Context) {
	ticker := time.NewTicker(commitRetry)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		began, pid, abandon := p.began, p.pid, p.abandon
		p.mu.Unlock()
		if began.IsZero() || pid == 0 || p.cfg.Now().Sub(began) < 2*commitRetry {
			continue
		}
		timed, cancel := context.WithTimeout(ctx, CommitProbeSlow)
		var event string
		var busy bool
		err := p.cfg.Asking.QueryRow(timed, readWait, int32(pid)).Scan(&event, &busy)
		cancel()
		p.mu.Lock()
		switch {
		case p.began != began: // it ended meanwhile
		case errors.Is(err, pgx.ErrNoRows), err == nil && !busy:
			abandon()
		case err == nil:
			p.waitsFor = event
		}
		p.mu.Unlock()
	}
}
