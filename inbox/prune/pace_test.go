package prune_test

import (
	"math"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
)

// The pace is judged over an hour, by what is given.
func TestPruneWatch(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type step struct {
		after             time.Duration
		incoming, drained int64
		backlog           int64
		removed           int64
		took              time.Duration
	}
	for name, c := range map[string]struct {
		steps    []step
		behind   bool
		headroom float64
	}{
		"too soon to tell":        {[]step{{0, 0, 0, 10, 0, 0}, {59 * time.Minute, 9000, 10, 10, 0, 0}}, false, 0},
		"an hour of less":         {[]step{{0, 0, 0, 10, 0, 0}, {30 * time.Minute, 4500, 10, 10, 0, 0}, {time.Hour, 9000, 20, 10, 0, 0}}, true, 0},
		"less, but nothing due":   {[]step{{0, 0, 0, 10, 0, 0}, {30 * time.Minute, 4500, 10, 0, 0, 0}, {time.Hour, 9000, 20, 10, 0, 0}}, false, 0},
		"an hour of more":         {[]step{{0, 0, 0, 10, 0, 0}, {time.Hour, 9000, 10000, 10, 0, 0}}, false, 0},
		"less, but an hour ago":   {[]step{{0, 0, 0, 10, 0, 0}, {time.Hour, 9000, 10, 10, 0, 0}, {2 * time.Hour, 10000, 20000, 10, 0, 0}}, false, 0},
		"the counters began anew": {[]step{{0, 90000, 90000, 10, 0, 0}, {time.Hour, 9000, 10, 10, 0, 0}}, false, 0},
		// 3,600 rows an hour come in, 100 rows a second can go.
		"headroom": {[]step{{0, 0, 0, 0, 0, 0}, {time.Hour, 3600, 3600, 0, 3600, 36 * time.Second}}, false, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var watch prune.Watch
			var pace prune.Pace
			for _, s := range c.steps {
				pace = watch.Add(
					prune.Sample{At: start.Add(s.after), Incoming: s.incoming, Drained: s.drained, Backlog: s.backlog},
					prune.Report{Rows: map[string]int64{"inbox_event": s.removed}, Elapsed: s.took})
			}
			if pace.Behind != c.behind || math.Abs(pace.Headroom-c.headroom) > 0.01 {
				t.Errorf("%+v: want behind %t, headroom %g", pace, c.behind, c.headroom)
			}
		})
	}
}

// What no pass has reached is the backlog, with the age of its oldest row: also if passes are no longer made, or the first one
// never began.
func TestPruneSample(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	sample := func(what string, backlog int64, oldest time.Duration) {
		t.Helper()
		got, err := p.Pruner(t).Sample(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Backlog != backlog || (got.Oldest-oldest).Abs() > 2*time.Hour {
			t.Errorf("%s: %+v, want %d rows, the oldest due for %s", what, got, backlog, oldest)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		p.Deliver(t, id, 40*storetest.Day, inbox.EffectDone)
	}
	p.Exec(t, `DELETE FROM effect`)
	sample("before the first pass", 3, 10*storetest.Day)
	p.Prune(t)
	sample("after a pass that came to its end", 0, 0)
	for _, id := range []string{"d", "e"} {
		p.Deliver(t, id, 35*storetest.Day, inbox.EffectDone)
	}
	sample("when more rows are due since", 2, 5*storetest.Day)
	p.Exec(t, `UPDATE prune_walk SET completed_at = NULL, position = $1 WHERE name LIKE 'inbox_event/%'`, inbox.FirstID(time.Now().Add(-39*storetest.Day)).String())
	sample("within a walk", 2, 5*storetest.Day)
	inboxtest.Until(t, "the statistics", func() bool {
		got, err := p.Pruner(t).Sample(t.Context())
		return err == nil && got.Incoming >= 5 && got.Drained >= 3
	})
}
