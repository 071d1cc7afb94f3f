package rollup_test

import (
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/session"
)

// Of several processes that take a sample at once one is kept. What waits for two routes adds up, and of their ages the larger
// one counts. An hour has its largest sample.
func TestBacklog(t *testing.T) {
	t.Parallel()
	b := setup(t, session.PoolAdmin)
	samples := []rollup.Backlog{{Source: 1, Route: 1, Waiting: 7, Oldest: 90 * time.Second}, {Source: 2, Route: 2, Waiting: 5, Oldest: 30 * time.Second}}
	larger := []rollup.Backlog{{Source: 1, Route: 1, Waiting: 9, Oldest: 20 * time.Second}}
	for _, c := range []struct {
		window          rollup.Window
		at              time.Time
		waiting, oldest int64
	}{
		{rollup.Day, b.now.Add(-3 * time.Hour).Truncate(time.Hour).Add(time.Minute), 14, 90},
		{rollup.Hour, b.now.Add(-10 * time.Minute).Truncate(time.Minute), 12, 90},
	} {
		var processes sync.WaitGroup
		for range 8 {
			processes.Go(func() {
				if err := rollup.WriteBacklog(t.Context(), b.pool, c.at.Add(time.Second), samples); err != nil {
					t.Error(err)
				}
			})
		}
		processes.Wait()
		if err := rollup.WriteBacklog(t.Context(), b.pool, c.at.Add(40*time.Second), larger); err != nil {
			t.Fatal(err)
		}
		series, err := b.reader.Series(t.Context(), rollup.Filter{Window: c.window})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range series.Points {
			waiting, oldest := int64(0), int64(0)
			if !p.At.After(c.at) && c.at.Before(p.At.Add(series.Step)) {
				waiting, oldest = c.waiting, c.oldest
			}
			if p.Waiting != waiting || p.OldestSeconds != oldest {
				t.Errorf("%s: at %s %d waited, the oldest for %d s, want %d and %d", c.window, p.At, p.Waiting, p.OldestSeconds, waiting, oldest)
			}
		}
	}
}
