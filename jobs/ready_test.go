package jobs_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/jobs"
)

// A worker whose sweeps have not succeeded for three leases says so, and is ready
// again with the next one that does.
func TestAWorkerThatDoesNotSweepIsNotReady(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lease = 2 * time.Second
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c := b.client(jobs.Config{SweepEvery: 20 * time.Millisecond, Now: now, Logger: slog.New(slog.DiscardHandler)})
	b.eventually("it is ready", func() bool { return c.Ready() == nil })
	b.exec(`ALTER TABLE stream RENAME TO stream_away`)
	b.exec(`ALTER TABLE effect RENAME TO effect_away`)
	b.eventually("a sweep has failed and the clock goes on", func() bool {
		ahead.Add(int64(time.Second))
		return c.Ready() != nil
	})
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "no sweep has succeeded for") || ahead.Load() < int64(5*time.Second) {
		t.Errorf("after %s it says %v, want that no sweep has succeeded for over three leases of 2 s", time.Duration(ahead.Load()), err)
	}
	b.exec(`ALTER TABLE effect_away RENAME TO effect`)
	b.exec(`ALTER TABLE stream_away RENAME TO stream`)
	b.eventually("it is ready again", func() bool { return c.Ready() == nil })
}
