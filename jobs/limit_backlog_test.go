package jobs_test

import (
	"container/heap"
	"testing"
	"time"

	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A backlog at a slow target costs little more than its attempts, however long it is: the database must not be busy with putting
// effects off. The target has work all the time, and the last effects do not wait for long after it could have taken them.
// A list of 50,000 messages on a busy machine put each message off 33 times, which made it slower again.
func TestABacklogIsNotPutOffAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		effects int
		slots   int
		took    func(done int) time.Duration
	}{
		{"quick", 50_000, 10, func(int) time.Duration { return 5 * time.Millisecond }},
		{"slow", 50_000, 10, func(int) time.Duration { return 250 * time.Millisecond }},
		{"short and slow", 300, 2, func(int) time.Duration { return 2 * time.Second }},
		{"slow at first", 20_000, 10, func(done int) time.Duration {
			if done < 5000 {
				return 250 * time.Millisecond
			}
			return 25 * time.Millisecond
		}},
		{"slow in the end", 20_000, 10, func(done int) time.Duration {
			if done < 15_000 {
				return 10 * time.Millisecond
			}
			return 250 * time.Millisecond
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var need time.Duration
			for i := range c.effects {
				need += c.took(i) / time.Duration(c.slots)
			}
			took, putOff := drain(c.effects, jobs.Target{Concurrency: c.slots}, c.took)
			each := float64(putOff) / float64(c.effects)
			t.Logf("%d effects in %s, which need %s; each was put off %.1f times", c.effects, took.Round(time.Second), need.Round(time.Second), each)
			if each > 8 {
				t.Errorf("each effect was put off %.1f times", each)
			}
			if limit := need*7/4 + 40*time.Second; took > limit {
				t.Errorf("it took %s, and %s are enough", took, limit)
			}
		})
	}
}

// drain returns how long a target needs for effects that are all due at once, and how often they are put off.
func drain(effects int, target jobs.Target, took func(done int) time.Duration) (lasted time.Duration, putOff int) {
	now := time.Unix(0, 0)
	limit := jobs.NewLimit(target, 500, func() time.Time { return now })
	var queue occurrences
	for range effects {
		heap.Push(&queue, occurrence{at: now})
	}
	for done := 0; queue.Len() > 0; {
		next := heap.Pop(&queue).(occurrence)
		now = next.at
		if next.leave != nil {
			next.leave(effect.Result{Outcome: effect.Done})
			continue
		}
		leave, wait := limit.Enter()
		if leave == nil {
			putOff++
			heap.Push(&queue, occurrence{at: now.Add(wait)})
			continue
		}
		heap.Push(&queue, occurrence{at: now.Add(took(done)), leave: leave})
		done++
	}
	return now.Sub(time.Unix(0, 0)), putOff
}

// occurrence is the wake-up of an effect, or the end of an attempt.
type occurrence struct {
	at    time.Time
	leave func(effect.Result)
}

type occurrences []occurrence

func (o occurrences) Len() int           { return len(o) }
func (o occurrences) Less(i, j int) bool { return o[i].at.Before(o[j].at) }
func (o occurrences) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *occurrences) Push(x any)        { *o = append(*o, x.(occurrence)) }
func (o *occurrences) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}
