package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
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

	// clockWait is how long [Clock.Doubted] waits for a measurement.
	clockWait = 2 * time.Second

	// clockMoved is how long after a measurement that changed the offset by more than
	// [MaxSkew] a delivery may still have been judged by the old one.
	clockMoved = 10 * time.Second
)

// How exactly the offset is known.
const (
	// clockProbes is how often one measurement asks at most; an answer within clockQuick
	// is exact enough to end it.
	clockProbes = 4
	clockQuick  = 10 * time.Millisecond

	// clockDrift is how fast two clocks move apart at most, as a share of the time: 1/2000.
	clockDrift = 2000
)

// comparison is what one question to the database told of the two clocks.
type comparison struct {
	at     time.Time     // of the question, by this machine
	offset time.Duration // of the database's clock
	error  time.Duration // at most: half of the time that the answer took
}

// betterThan reports whether the offset is taken from c from now on, instead of the
// comparison that is kept. A slow answer is less exact than an older, quick one, so
// c replaces it only once drift has made the older one as vague. If both cannot be true,
// a clock was set in between.
func (c *comparison) betterThan(kept *comparison) bool {
	if kept == nil {
		return true
	}
	vague := kept.error + c.at.Sub(kept.at).Abs()/clockDrift
	return c.error <= vague || (c.offset-kept.offset).Abs() > c.error+vague
}

// Clock returns the database's time without asking the database each time. Ids are made from
// it, so that all nodes agree on the day a body belongs to.
//
// When the two clocks differ, either may be the wrong one. Leases, horizons and ids follow
// the database's clock, because all processes share it. Before a delivery is refused because
// of its time, [Clock.Doubted] says whether the time may be wrong.
type Clock struct {
	pool   *pgxpool.Pool
	Local  func() time.Time
	every  time.Duration
	log    *slog.Logger
	kept   atomic.Pointer[comparison]
	latest atomic.Int64                  // what Now returned, Unix nanoseconds
	read   atomic.Pointer[time.Time]     // when it was measured, by this machine
	moved  atomic.Pointer[time.Time]     // when it was last found changed by more than MaxSkew
	next   atomic.Pointer[chan struct{}] // closed by the next measurement, whether or not it succeeds
	asked  chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup

	measured, failed, beyond atomic.Uint64
}

// NewClock makes a clock that corrects now by the clock of the database that pool connects
// to. It is uncorrected until Start.
func NewClock(pool *pgxpool.Pool, now func() time.Time) *Clock {
	c := &Clock{pool: pool, Local: now, every: time.Minute, log: slog.New(slog.DiscardHandler), asked: make(chan struct{}, 1)}
	next := make(chan struct{})
	c.next.Store(&next)
	return c
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
		// A failed measurement keeps the last offset; readiness reports that the database is
		// unreachable.
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

func (c *Clock) measure(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			c.failed.Add(1)
		}
		next := make(chan struct{})
		close(*c.next.Swap(&next))
	}()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reading the database's clock: %w", err)
	}
	defer conn.Release()
	var best *comparison
	for range clockProbes {
		before := c.Local()
		var there time.Time
		if err := conn.QueryRow(ctx, row.ReadClock).Scan(&there); err != nil {
			if best != nil {
				break
			}
			return fmt.Errorf("reading the database's clock: %w", err)
		}
		half := c.Local().Sub(before) / 2
		probe := &comparison{at: before, offset: there.Sub(before.Add(half)), error: half}
		if best == nil || probe.error < best.error {
			best = probe
		}
		if 2*probe.error <= clockQuick {
			break
		}
	}
	if kept := c.kept.Load(); best.betterThan(kept) {
		if kept != nil && (best.offset-kept.offset).Abs() > MaxSkew {
			now := c.Local()
			c.moved.Store(&now)
		}
		c.kept.Store(best)
	}
	c.read.Store(&best.at)
	c.measured.Add(1)
	if c.Check() != nil {
		c.beyond.Add(1)
	}
	return nil
}

// Doubted reports whether the time that Now returns, or returned a moment ago, may be wrong,
// so that a delivery must not be refused if its time is its only fault: the clocks differ by
// more than [MaxSkew], they did until seconds ago, or they could not be compared. Either
// clock may have been set in the last seconds. If no comparison was made in that time,
// Doubted asks for one, at most once a second, and waits up to two seconds for it.
func (c *Clock) Doubted(ctx context.Context) bool {
	if c.trusted() {
		return false
	}
	measured := *c.next.Load()
	select {
	case c.asked <- struct{}{}:
	default:
	}
	if c.Check() != nil || c.read.Load() == nil {
		return true // already known, or not started: waiting would change nothing
	}
	timed, cancel := context.WithTimeout(ctx, clockWait)
	defer cancel()
	select {
	case <-measured:
		return !c.trusted()
	case <-timed.Done():
		return true
	}
}

// trusted reports whether the clocks were compared in the last seconds and agreed, and
// had agreed before.
func (c *Clock) trusted() bool {
	within := func(at *time.Time, span time.Duration) bool {
		if at == nil {
			return false
		}
		age := c.Local().Sub(*at)
		return age >= 0 && age <= span
	}
	return c.Check() == nil && within(c.read.Load(), clockTrusted) && !within(c.moved.Load(), clockMoved)
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

// Now is the database's time, to within half of the quickest round trip of the last
// measurements. It is never before the time that it returned earlier: if the clock is
// corrected backwards by at most [MaxSkew], Now returns the same time until the clock has
// caught up. A larger correction means that a clock was set, and Now follows it at once.
func (c *Clock) Now() time.Time {
	// Without the monotonic reading, because two times are compared by it if both have one, and a wall clock that is being
	// corrected runs some nanoseconds apart from it.
	now := c.Local().Add(c.Skew()).Round(0)
	for {
		latest := c.latest.Load()
		back := time.Duration(latest - now.UnixNano())
		if back > 0 && back <= MaxSkew {
			return now.Add(back)
		}
		if c.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

// Skew is how far the database's clock is ahead of this machine's; negative if it is slower.
func (c *Clock) Skew() time.Duration {
	if kept := c.kept.Load(); kept != nil {
		return kept.offset
	}
	return 0
}

// Check returns an error if the skew is over [MaxSkew].
func (c *Clock) Check() error {
	if skew := c.Skew(); skew.Abs() > MaxSkew {
		return fmt.Errorf("this machine's clock is %s from the database's, over %s: set both by NTP", skew.Round(time.Second), MaxSkew)
	}
	return nil
}
