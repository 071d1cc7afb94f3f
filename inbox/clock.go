package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// MaxSkew is how far this machine's clock may be from the database's before the
// process calls itself not ready: signatures are judged by this clock, leases by
// the database's.
const MaxSkew = 30 * time.Second

// How the offset is measured again before a delivery is refused for its time.
const (
	// clockTrusted is how long after a measurement the offset is taken to be what it is
	// now: either clock may be set at any moment.
	clockTrusted = 5 * time.Second

	// clockApart is the least time between two measurements that were asked for.
	clockApart = time.Second
)

// Clock gives the time as the database has it, without asking it each time. Ids
// are made from it, so that all nodes agree on the day a body belongs to.
//
// When the two clocks differ, either may be the wrong one. Leases, horizons and ids go
// by the database's, since all processes share it; what a wrong one would do to a
// sender is asked of [Clock.Doubted].
type Clock struct {
	pool   *pgxpool.Pool
	now    func() time.Time
	every  time.Duration
	log    *slog.Logger
	offset atomic.Int64
	read   atomic.Pointer[time.Time] // when it was measured, by this machine
	asked  chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup

	measured, failed, beyond atomic.Uint64
}

// NewClock makes a clock that corrects now by the database behind pool. It is
// uncorrected until Start.
func NewClock(pool *pgxpool.Pool, now func() time.Time) *Clock {
	return &Clock{pool: pool, now: now, every: time.Minute, log: slog.New(slog.DiscardHandler), asked: make(chan struct{}, 1)}
}

// WithLogger has the measuring warn when the two clocks differ by more than [MaxSkew],
// and when it fails. It returns the clock, and is called before Start.
func (c *Clock) WithLogger(log *slog.Logger) *Clock {
	c.log = log
	return c
}

// Start measures the offset once and then every minute, and when [Clock.Doubted] asks
// for it, until Stop. It returns an error if the first measurement fails.
func (c *Clock) Start(ctx context.Context) error {
	if err := c.measure(ctx); err != nil {
		return err
	}
	c.tell(ctx, nil)
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done.Go(func() { c.run(ctx) })
	return nil
}

func (c *Clock) run(ctx context.Context) {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wrong := c.Check() != nil; ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		regular := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			regular = true
		case <-c.asked:
		}
		// A failed measurement keeps the last offset; that the database is away is told
		// by readiness.
		err := c.measure(ctx)
		if now := c.Check() != nil; regular || now != wrong {
			wrong = now
			c.tell(ctx, err)
		}
		pause.Reset(clockApart)
	}
}

// tell warns about what the last measurement found.
func (c *Clock) tell(ctx context.Context, err error) {
	switch wrong := c.Check(); {
	case ctx.Err() != nil:
	case err != nil:
		c.log.WarnContext(ctx, "the database's clock could not be read", slog.Any("error", err))
	case wrong != nil:
		c.log.WarnContext(ctx, "the clocks differ: deliveries that look too old or too new are answered 503", slog.Any("error", wrong))
	}
}

// Stop ends the measuring. It may be called before Start and twice.
func (c *Clock) Stop() {
	if c.stop != nil {
		c.stop()
	}
	c.done.Wait()
}

// clock_timestamp is the instant of the call, where now() would be the start of
// the transaction.
const readClock = `SELECT clock_timestamp()`

func (c *Clock) measure(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			c.failed.Add(1)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reading the database's clock: %w", err)
	}
	defer conn.Release()
	before := c.now()
	var there time.Time
	if err := conn.QueryRow(ctx, readClock).Scan(&there); err != nil {
		return fmt.Errorf("reading the database's clock: %w", err)
	}
	after := c.now()
	c.offset.Store(int64(there.Sub(before.Add(after.Sub(before) / 2))))
	c.read.Store(&before)
	c.measured.Add(1)
	if c.Check() != nil {
		c.beyond.Add(1)
	}
	return nil
}

// Doubted reports whether the time that Now gives may be wrong, so that a delivery
// whose only fault is its time must not be refused for it: the clocks differ by more
// than [MaxSkew], or were not compared in the last seconds, in which either may have
// been set. It then has them compared at once, at most once a second, and does not
// wait for that.
func (c *Clock) Doubted() bool {
	if read := c.read.Load(); read != nil && c.Check() == nil {
		if age := c.now().Sub(*read); age >= 0 && age <= clockTrusted {
			return false
		}
	}
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return true
}

// ClockStats is what the measuring has found.
type ClockStats struct {
	// Skew is how far the database was ahead at the last measurement.
	Skew time.Duration

	// Measured counts the measurements, Beyond those that found more than [MaxSkew],
	// Failed those that found nothing.
	Measured, Beyond, Failed uint64
}

// Stats is a snapshot of the counters.
func (c *Clock) Stats() ClockStats {
	return ClockStats{Skew: c.Skew(), Measured: c.measured.Load(), Beyond: c.beyond.Load(), Failed: c.failed.Load()}
}

// Now is the database's time, to within half a round trip of the last measurement.
func (c *Clock) Now() time.Time { return c.now().Add(c.Skew()) }

// Skew is how far the database is ahead of this machine; negative if behind.
func (c *Clock) Skew() time.Duration { return time.Duration(c.offset.Load()) }

// Check returns an error if the skew is over [MaxSkew].
func (c *Clock) Check() error {
	if skew := c.Skew(); skew.Abs() > MaxSkew {
		return fmt.Errorf("this machine's clock is %s from the database's, over %s: set both by NTP", skew.Round(time.Second), MaxSkew)
	}
	return nil
}
