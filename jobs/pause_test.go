package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// pauses is what a process knows to be paused.
type pauses struct{ routes sync.Map }

func (p *pauses) paused(route int32) bool { _, yes := p.routes.Load(route); return yes }

// The effects of a paused route wait, of every kind: no attempt is used up, and no pause makes a dead letter. The end of the
// pause lets them run at once (the sweeper finds those whose jobs were only being put off then), and not when the wait is over for which they were put off.
func TestAPausedRouteWaits(t *testing.T) {
	t.Parallel()
	for _, name := range []string{repeatable, once, within} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pauses
			b := setup(t)
			b.paused = p.paused
			b.retry.Deadline = time.Hour
			p.routes.Store(b.routes[name], true)
			ids := b.admit(name, 5)
			// One was sent again by a person, and its row says so until an attempt was made.
			b.exec(`UPDATE effect SET reason = 'resent' WHERE id = $1`, ids[0])
			var putOff atomic.Int64
			target := &sink{idempotent: name == repeatable}
			c := b.client(jobs.Config{Senders: senders(target), SweepEvery: 100 * time.Millisecond, Observe: func(r jobs.Report) {
				if r.Reason == reasons.Paused && r.Route == name && r.Target == name {
					putOff.Add(1)
				}
			}})
			waiting := `SELECT count(*) FROM effect WHERE state = 'pending' AND attempts = 0 AND reason IN ('paused', 'resent') AND next_at > now() + interval '20 minutes'`
			b.eventually("all to be put off", func() bool { return b.count(waiting) == len(ids) && putOff.Load() == int64(len(ids)) })
			other := repeatable
			if name == repeatable {
				other = within
			}
			b.eventuallyState(b.admit(other, 1)[0], inbox.EffectDone) // its route is not paused
			if b.count(waiting) != len(ids) || b.count(`SELECT count(*) FROM effect_attempt a JOIN effect e ON e.id = a.effect_id WHERE e.route_id = $1`, b.routes[name]) != 0 {
				t.Error("a paused effect was attempted")
			}
			p.routes.Clear()
			c.Resumed()
			for _, id := range ids {
				b.eventuallyState(id, inbox.EffectDone)
				if got := b.outcomes(id); len(got) != 1 {
					t.Errorf("the attempts of %s are %v, want one", id, got)
				}
			}
		})
	}
}

// A pause that ended while no process ran must not leave its effects to the end of a long wait.
func TestAPauseThatEndedWithoutAProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET reason = 'paused', next_at = now() + interval '1 h'`)
	b.exec(`UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 h'`)
	b.client(jobs.Config{})
	b.within(20*time.Second, "the effect to be done", func() bool { return b.row(id).State == "done" })
}

// Pausing an ordered route stops a chain between two effects, and the order is kept when it goes on.
func TestAPauseKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []sequence.Mode{sequence.Contiguous, sequence.Arrival, sequence.Latest} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var p pauses
			b := setup(t)
			b.paused = p.paused
			b.order = map[string]sequence.Policy{repeatable: {Mode: mode, Start: "1"}}
			first := b.sequenced(repeatable, "k", "1")[0]
			var mu sync.Mutex
			var sent []string
			begun, end := make(chan struct{}), make(chan struct{})
			c := b.client(jobs.Config{SweepEvery: 100 * time.Millisecond, Senders: senders(&sink{idempotent: true, answer: func(_ context.Context, call *effect.Call) effect.Result {
				mu.Lock()
				sent = append(sent, strings.TrimPrefix(call.Key, "key-"))
				mu.Unlock()
				if call.Key == "key-"+first.String() {
					close(begun)
					<-end
				}
				return effect.Result{Outcome: effect.Done, Code: "200"}
			}})})
			<-begun
			ids := append([]inbox.ID{first}, b.sequenced(repeatable, "k", "2", "3")...)
			b.eventually("the next effects to be held", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE state = 'pending'`) == 0 && b.row(ids[2]).State == "held"
			})
			p.routes.Store(b.routes[repeatable], true) // while the first attempt is under way
			close(end)
			b.eventuallyState(first, inbox.EffectDone) // it goes on to its end
			b.eventually("the next effect to be put off", func() bool {
				return b.count(`SELECT count(*) FROM effect WHERE state = 'pending' AND reason = 'paused' AND attempts = 0`) > 0
			})
			last := ids[len(ids)-1]
			mu.Lock()
			if len(sent) != 1 {
				t.Errorf("the target got %v during the pause, want the first effect alone", sent)
			}
			mu.Unlock()
			p.routes.Clear()
			c.Resumed()
			b.eventuallyState(last, inbox.EffectDone)
			mu.Lock()
			defer mu.Unlock()
			want := ids
			if mode == sequence.Latest { // the newest supersedes what it overtakes
				want = slices.DeleteFunc(slices.Clone(ids), func(id inbox.ID) bool { return b.row(id).State == "superseded" })
			}
			if got := strings.Join(sent, " "); got != strings.Trim(fmt.Sprint(want), "[]") {
				t.Errorf("the target got %s, want %v", got, want)
			}
		})
	}
}

// A replay stops before the first effect of a paused target, with the rest of its items, and goes on after the pause.
func TestAReplayWaitsForAPause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(4, replay.Config{})
	step := func() replay.Step {
		t.Helper()
		s, err := r.Step(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, set := range []string{
		`INSERT INTO pause (route_id, actor, reason) VALUES ($1, 'ann', 'a test')`,
		`INSERT INTO pause (target, actor, reason) SELECT target, 'ann', 'a test' FROM route WHERE id = $1`,
	} {
		b.exec(set, b.routes[repeatable])
		if s := step(); s.State != replay.Running || s.Items != 0 || s.Wait <= 0 {
			t.Errorf("during the pause a step is %+v, want it to wait", s)
		}
		if n := b.count(`SELECT count(*) FROM effect WHERE state = 'dead'`); n != len(ids) {
			t.Errorf("%d effects are dead, want all %d as they were", n, len(ids))
		}
		b.exec(`DELETE FROM pause`)
	}
	// A pause of something else.
	b.exec(`INSERT INTO pause (route_id, actor, reason) VALUES ($1, 'ann', 'a test')`, b.routes[once])
	run(t, r, p.ID)
	if n := b.count(`SELECT count(*) FROM effect WHERE state = 'pending' AND version = 2`); n != len(ids) {
		t.Errorf("%d effects were sent again after the pause, want %d", n, len(ids))
	}
}

// A paused target is not asked about unknown outcomes, because it may be away or under repair. The end of the pause lets it be asked.
func TestAPausedTargetIsNotAsked(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	var resumed atomic.Bool
	b := setup(t)
	b.paused = func(route int32) bool {
		if route == b.routes[once] {
			looks.Add(1)
		}
		return !resumed.Load()
	}
	id := b.unknown(1, time.Hour)[0]
	target := &answering{asked: map[string]int{}, found: map[string]effect.ProbeOutcome{"key-" + id.String(): effect.ProbeDone}}
	b.prober(target, nil)
	b.eventually("three runs to look", func() bool { return looks.Load() >= 3 })
	if n := target.count(id); n != 0 {
		t.Errorf("the paused target was asked %d times", n)
	}
	resumed.Store(true)
	b.eventuallyState(id, inbox.EffectDone)
}
