package inbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// MaxSkew is how far this machine's clock may be from the database's before the
// process calls itself not ready: signatures are judged by this clock, leases by
// the database's.
const MaxSkew = 30 * time.Second

// Clock gives the time as the database has it, without asking it each time. Ids
// are made from it, so that all nodes agree on the day a body belongs to.
type Clock struct {
	pool   *pgxpool.Pool
	now    func() time.Time
	every  time.Duration
	offset atomic.Int64
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// NewClock makes a clock that corrects now by the database behind pool. It is
// uncorrected until Start.
func NewClock(pool *pgxpool.Pool, now func() time.Time) *Clock {
	return &Clock{pool: pool, now: now, every: time.Minute}
}

// Start measures the offset once and then every minute, until Stop. It returns
// an error if the first measurement fails.
func (c *Clock) Start(ctx context.Context) error {
	if err := c.measure(ctx); err != nil {
		return err
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done.Go(func() {
		ticker := time.NewTicker(c.every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				// A failed measurement keeps the last offset; that the database is away
				// is told by readiness.
				_ = c.measure(ctx)
			}
		}
	})
	return nil
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

func (c *Clock) measure(ctx context.Context) error {
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
	return nil
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
