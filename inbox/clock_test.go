package inbox_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/session"
)

// A database whose clock can be set: its own clock_timestamp() is found before
// PostgreSQL's.
const settableClock = `
CREATE TABLE clock_ahead (by interval NOT NULL, delay float NOT NULL);
INSERT INTO clock_ahead VALUES ('0', 0);
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM clock_ahead, pg_sleep(delay)'`

// While nobody can know which of two clocks is right, the time of a delivery is in
// doubt: when the database's is set to something else, and when it is set right again,
// as soon as somebody asks and not a minute later.
func TestClockInDoubt(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	admin := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	if _, err := admin.Exec(t.Context(), settableClock); err != nil {
		t.Fatal(err)
	}
	cfg := admin.Config()
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET search_path = "+schema+", pg_catalog")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var log logtest.Buffer
	var later atomic.Int64
	clock := inbox.NewClock(pool, func() time.Time { return time.Now().Add(time.Duration(later.Load())) }).WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	if !clock.Doubted(t.Context()) {
		t.Error("a clock that was never compared is not doubted")
	}
	if err := clock.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clock.Stop)
	inboxtest.Until(t, "the clock is trusted once it was compared", func() bool { return !clock.Doubted(t.Context()) })
	set := func(to string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), `UPDATE clock_ahead SET by = $1::text::interval`, to); err != nil {
			t.Fatal(err)
		}
	}

	set("10 minutes")
	later.Add(int64(6 * time.Second)) // the last comparison says nothing any more
	if !clock.Doubted(t.Context()) {
		t.Error("a comparison of 6 s ago is trusted")
	}
	inboxtest.Until(t, "the difference is found", func() bool { return clock.Skew() > 9*time.Minute })
	for range 10 {
		if !clock.Doubted(t.Context()) {
			t.Fatal("clocks ten minutes apart are not doubted")
		}
	}
	inboxtest.Until(t, "the log", func() bool { return strings.Contains(log.String(), "the clocks differ") })
	if stats := clock.Stats(); stats.Beyond == 0 || stats.Skew < 9*time.Minute {
		t.Errorf("the figures are %+v, want the difference in them", stats)
	}

	set("0")
	inboxtest.Until(t, "the clocks are compared again", func() bool { clock.Doubted(t.Context()); return clock.Check() == nil })
	if !clock.Doubted(t.Context()) {
		t.Error("a delivery that was judged by the wrong time a moment ago is refused")
	}
	later.Add(int64(11 * time.Second))
	if clock.Doubted(t.Context()) {
		t.Error("clocks that have agreed for ten seconds are doubted: whoever asks waits for a comparison")
	}
	if skew := clock.Skew().Abs(); skew > inbox.MaxSkew {
		t.Errorf("the skew is still %s", skew)
	}

	// The quickest answers decide the offset: slow ones change nothing. The time never
	// goes back.
	compare := func(ahead string, seconds float64) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), `UPDATE clock_ahead SET by = $1::text::interval, delay = $2`, ahead, seconds); err != nil {
			t.Fatal(err)
		}
		if err := clock.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compare("0", 0)
	quick := clock.Skew()
	compare("0", 0.5)
	if moved := (clock.Skew() - quick).Abs(); moved > 100*time.Millisecond {
		t.Errorf("a slow answer moved the time by %s", moved)
	}
	earlier := clock.Now()
	compare("-10 s", 0)
	if now := clock.Now(); now.Before(earlier) || clock.Skew() > quick-9*time.Second {
		t.Errorf("the database's clock was set back: the time went back by %s, and the skew is %s", earlier.Sub(now), clock.Skew())
	}
	compare("0", 0)
	if moved := (clock.Skew() - quick).Abs(); moved > 100*time.Millisecond {
		t.Errorf("the skew is %s, want %s", clock.Skew(), quick)
	}

	// Whoever asks in bulk makes one comparison a second.
	later.Add(int64(6 * time.Second))
	before, began := clock.Stats().Measured, time.Now()
	inboxtest.Until(t, "many questions", func() bool {
		for range 1000 {
			clock.Doubted(t.Context())
		}
		return time.Since(began) > 2*time.Second
	})
	if n := clock.Stats().Measured - before; n > uint64(time.Since(began).Seconds())+2 {
		t.Errorf("%d comparisons in %s, want one a second at most", n, time.Since(began))
	}
}
