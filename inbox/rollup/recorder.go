package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/background"
)

// Executor carries out one statement in a separate transaction. A *pgxpool.Pool is one.
type Executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Config configures a [Recorder]. DB and Node are required.
type Config struct {
	DB Executor

	// Node identifies this process, for as long as any process runs: the id of its row in the table of nodes or, for a
	// command, a new id.
	Node inbox.ID

	// Now is the clock of the gate. It defaults to time.Now.
	Now func() time.Time

	// Every is the pause between two flushes. It defaults to 10 s.
	Every time.Duration

	// Logger defaults to discarding.
	Logger *slog.Logger

	// statement replaces the one that writes a batch, in tests.
	statement string
}

// statementTimeout bounds one statement of a flush.
const statementTimeout = 5 * time.Second

// Recorder counts in memory and writes what it has counted every few seconds. It is safe for concurrent use.
type Recorder struct {
	cfg Config

	mu       sync.Mutex                                // for the following field
	added    map[place]*Counters                       // that are not among counters yet
	counters atomic.Pointer[map[place]*Counters]       // never changed, only replaced
	flushing chan struct{}                             // held during a flush
	pending  pending                                   // this and the following fields belong to the flush
	batch    *batch                                    // whose commit is not confirmed
	number   int64                                     // of the last batch
	failing  bool                                      // the last flush failed
	stop     func(ctx context.Context) (stopped error) // nil until it is started
}

// New makes a recorder; [Recorder.Start] starts it.
func New(cfg Config) (*Recorder, error) {
	var errs []error
	if cfg.DB == nil {
		errs = append(errs, errors.New("rollup: DB is required"))
	}
	if cfg.Node.IsZero() {
		errs = append(errs, errors.New("rollup: Node is required"))
	}
	if cfg.Every < 0 {
		errs = append(errs, errors.New("rollup: Every must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.Every = cmp.Or(cfg.Every, 10*time.Second)
	cfg.statement = cmp.Or(cfg.statement, writeBatch)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Recorder{cfg: cfg, flushing: make(chan struct{}, 1), pending: newPending(), added: map[place]*Counters{}}
	r.counters.Store(&map[place]*Counters{})
	return r, nil
}

// Counters returns the counts of a source, or of one of its routes, for a tenant. Route 0 is the source itself; an
// empty tenant is for events without one. Soon after it has returned counters for the first time it neither waits nor
// allocates for them. A nil recorder returns nil, which counts nothing.
func (r *Recorder) Counters(source, route int32, tenant string) *Counters {
	if r == nil {
		return nil
	}
	at := place{source, route, tenant}
	if c, ok := (*r.counters.Load())[at]; ok {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := *r.counters.Load()
	if c, ok := known[at]; ok {
		return c
	}
	c, ok := r.added[at]
	if !ok {
		c = &Counters{place: at}
		r.added[at] = c
	}
	// A copy for each new element would take a process with 10,000 sources four seconds.
	if ok || len(r.added) > len(known)/8 {
		r.publish(known)
	}
	return c
}

// publish adds the new counters to the map that readers use without a lock. Call it with mu locked.
func (r *Recorder) publish(known map[place]*Counters) {
	if len(r.added) == 0 {
		return
	}
	all := maps.Clone(known)
	maps.Copy(all, r.added)
	r.counters.Store(&all)
	clear(r.added)
}

// all returns every Counters there is.
func (r *Recorder) all() map[place]*Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publish(*r.counters.Load())
	return *r.counters.Load()
}

// Now returns the time that the recorder uses.
func (r *Recorder) Now() time.Time {
	if r == nil {
		return time.Time{}
	}
	return r.cfg.Now()
}

// Start begins to flush.
func (r *Recorder) Start(ctx context.Context) { r.stop = background.Run(ctx, r.run) }

func (r *Recorder) run(ctx context.Context) {
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.logged(ctx, r.Flush(ctx))
		}
	}
}

// Stop writes the remaining counts. Nothing may be counted after the call.
func (r *Recorder) Stop(ctx context.Context) error {
	if r.stop == nil {
		return nil
	}
	if err := r.stop(ctx); err != nil {
		return err
	}
	if err := r.Flush(ctx); err != nil {
		return fmt.Errorf("writing the last counts: %w", err)
	}
	return nil
}

// logged reports the first failure after a success, and the first success after a failure.
func (r *Recorder) logged(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil && !r.failing:
		r.failing = true
		r.cfg.Logger.WarnContext(ctx, "counts could not be written; they are kept and written later", slog.Any("error", err))
	case err == nil && r.failing:
		r.failing = false
		r.cfg.Logger.InfoContext(ctx, "counts are written again")
	}
}

func (r *Recorder) exec(ctx context.Context, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	_, err := r.cfg.DB.Exec(ctx, sql, args...)
	return err
}
