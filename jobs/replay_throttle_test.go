package jobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// road is a machine on which deliveries wait the longer the more is replayed.
type road struct {
	now      time.Time
	perSec   float64       // deliveries
	calm     time.Duration // their wait with nothing in the way
	answered float64
	waited   float64 // seconds

	gives  *jobs.ReplayThrottle
	atMost float32
	rate   float64 // items a second at the moment
}

func newRoad(perSec float64, calm time.Duration) *road {
	r := &road{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), perSec: perSec, calm: calm}
	r.gives = jobs.NewReplayThrottle(func() (uint64, time.Duration) {
		return uint64(r.answered), time.Duration(r.waited * float64(time.Second))
	}, func() time.Time { return r.now })
	return r
}

// wait is that of a delivery now: twice as long beside 2,000 items a second.
func (r *road) wait() time.Duration { return r.calm + time.Duration(float64(r.calm)*r.rate/2000) }

func (r *road) pass(d time.Duration) {
	n := r.perSec * d.Seconds()
	r.answered, r.waited, r.now = r.answered+n, r.waited+n*r.wait().Seconds(), r.now.Add(d)
}

// drive lets a replay that could take 5,000 items a second go on for a while, and gives
// how many a second it took and how many deliveries' mean wait there was.
func (r *road) drive(d time.Duration) (perSec float64, mean time.Duration) {
	items, answered, waited := 0, r.answered, r.waited
	for end := r.now.Add(d); r.now.Before(end); {
		var rest time.Duration
		if rest, r.atMost = r.gives.Next(); rest > 0 {
			r.rate = 0
			r.pass(rest)
			continue
		}
		r.rate = 5000
		if r.atMost > 0 {
			r.rate = min(r.rate, float64(r.atMost))
		}
		n := max(int(r.rate/20), 1)
		r.gives.Took(n)
		items += n
		r.pass(time.Duration(float64(n) / r.rate * float64(time.Second)))
	}
	if r.answered > answered {
		mean = time.Duration((r.waited - waited) / (r.answered - answered) * float64(time.Second))
	}
	return float64(items) / d.Seconds(), mean
}

func TestAReplayGivesWay(t *testing.T) {
	t.Parallel()
	r := newRoad(1000, 4*time.Millisecond)
	r.drive(10 * time.Second)
	// A delivery may wait 1.2 times as long, which it does beside 400 items a second.
	for _, calm := range []time.Duration{4 * time.Millisecond, 9 * time.Millisecond, 3 * time.Millisecond} {
		r.calm = calm
		r.drive(10 * time.Second) // it has to learn that, in a rest
		if perSec, mean := r.drive(30 * time.Second); perSec < 200 || perSec > 600 || mean > calm*5/4 {
			t.Errorf("deliveries wait %s where %s is calm; %.0f items a second were taken", mean, calm, perSec)
		}
	}
}

func TestAReplayGoesOnBesideTheWorst(t *testing.T) {
	t.Parallel()
	r := newRoad(1000, 4*time.Millisecond)
	r.drive(10 * time.Second)
	// Each rest is calm, and whatever is replayed beside deliveries is a disaster.
	for second := range 60 {
		rested := r.calm
		if r.calm = 4 * time.Millisecond; r.rate > 0 {
			r.calm = 400 * time.Millisecond
		}
		if perSec, _ := r.drive(time.Second); perSec < 40 {
			t.Fatalf("second %d: %.0f items were taken, and before that deliveries waited %s", second, perSec, rested)
		}
	}
}

func TestAReplayAlone(t *testing.T) {
	t.Parallel()
	r := newRoad(0, time.Millisecond)
	if perSec, _ := r.drive(18 * time.Second); perSec < 4500 {
		t.Errorf("%.0f items a second were taken where nobody delivers, of 5,000", perSec)
	}
	r.perSec = 1000
	r.drive(1500 * time.Millisecond) // sooner than the next rest would be
	if _, mean := r.drive(time.Second); r.atMost < 200 || r.atMost > 1000 || mean > 2*r.calm {
		t.Errorf("deliveries came and wait %s, the replay goes on at %.0f/s", mean, r.atMost)
	}
	r.perSec = 0
	r.drive(6 * time.Second)
	if perSec, _ := r.drive(10 * time.Second); perSec < 4900 {
		t.Errorf("the deliveries ended; %.0f items a second were taken", perSec)
	}
}

func TestNothingToGiveWayTo(t *testing.T) {
	t.Parallel()
	if rest, atMost := jobs.NewReplayThrottle(nil, time.Now).Next(); rest != 0 || atMost != 0 {
		t.Errorf("rest %s, at most %f", rest, atMost)
	}
}

// jammed is a gate at which everybody waits, but when nothing was replayed yet.
func jammed(begun time.Time, replayed func() bool) jobs.Deliveries {
	var waited atomic.Int64
	var answered atomic.Uint64
	return func() (uint64, time.Duration) {
		n := uint64(time.Since(begun).Milliseconds())
		wait := time.Millisecond
		if replayed() {
			wait = time.Second
		}
		waited.Add(int64(n-answered.Swap(n)) * int64(wait))
		return n, time.Duration(waited.Load())
	}
}

// The worker heeds it: of an unpaced replay that nothing holds up this would be one step.
func TestTheWorkerGivesWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, r, p := b.started(100, replay.Config{Chunk: 100})
	b.client(jobs.Config{Replays: r, Deliveries: jammed(time.Now(), func() bool {
		return b.count(`SELECT count(*) FROM replay_outcome`) > 0
	})})
	b.eventually("the replay to end", func() bool {
		p, err := r.Status(t.Context(), p.ID)
		return err == nil && p.State == replay.Done
	})
	if steps := b.count(`SELECT count(DISTINCT acted_at) FROM replay_outcome`); steps < 5 {
		t.Errorf("%d steps were made beside deliveries that wait for a second", steps)
	}
}

// counting tells how many wake-ups wait while it sends.
type counting struct {
	sink
	b    *bundle
	sent atomic.Int64
	most atomic.Int64
}

func (c *counting) Send(ctx context.Context, call *effect.Call) effect.Result {
	if c.sent.Add(1)%40 == 1 {
		n := int64(c.b.count(`SELECT count(*) FROM river_job WHERE state = 'available'`))
		for old := c.most.Load(); n > old && !c.most.CompareAndSwap(old, n); old = c.most.Load() {
		}
	}
	return c.sink.Send(ctx, call)
}

// Little is so far ahead of the workers that it cannot give way any more.
func TestStepsDoNotRunAhead(t *testing.T) {
	t.Parallel()
	const n, chunk = jobs.MostAhead + 1000, 100
	b := setup(t)
	_, r, _ := b.started(n, replay.Config{Chunk: chunk})
	s := &counting{sink: sink{idempotent: true}, b: b}
	// Without a limit of the target's, or those put off because of it would wait, too.
	b.client(jobs.Config{
		Replays: r, MaxWorkers: 8, Senders: map[string]effect.Sender{repeatable: s}, Targets: map[string]jobs.Target{repeatable: {Greedy: true}},
	})
	b.eventually("all to be done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == n })
	if most := s.most.Load(); most > jobs.MostAhead+chunk || most < jobs.MostAhead/2 {
		t.Errorf("%d wake-ups waited at once, of %d", most, n)
	}
}
