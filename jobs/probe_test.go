package jobs_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// answering is a target that can be asked, and counts how often it was.
type answering struct {
	mu    sync.Mutex
	found map[string]effect.ProbeOutcome
	asked map[string]int
}

func (a *answering) Probe(_ context.Context, call *effect.Call) effect.ProbeResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[call.Key]++
	if a.found[call.Key] == "panic" {
		panic("a probe's own trouble")
	}
	return effect.ProbeResult{Outcome: a.found[call.Key], Code: "299", Stored: []byte(`{"id":"ch_1"}`)}
}

func (a *answering) count(id inbox.ID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked["key-"+id.String()]
}

// unknown admits n effects of the route that cannot deduplicate and lets their
// outcome be unknown.
func (b *bundle) unknown(n int, age time.Duration) []inbox.ID {
	b.tb.Helper()
	ids := b.admit(once, n)
	b.exec(`UPDATE effect SET state = 'indeterminate', next_at = NULL, reason = 'timeout', attempts = 1,
		send_started_at = now() - $2::bigint * interval '1 microsecond' WHERE id = ANY ($1)`, ids, age.Microseconds())
	return ids
}

func (b *bundle) prober(target *answering, reports chan<- jobs.ProbeReport) *jobs.Prober {
	b.tb.Helper()
	p, err := jobs.NewProber(jobs.ProberConfig{
		Store: b.store("node-1"), Logger: slog.New(slog.DiscardHandler), Every: 10 * time.Millisecond,
		Observe: func(r jobs.ProbeReport) {
			if reports != nil {
				reports <- r
			}
		},
		Routes: map[int32]jobs.RouteProbe{b.routes[once]: {Route: once, Source: "shop", Target: once, Prober: target, Every: time.Hour, AbsentAfter: 10 * time.Minute}},
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := p.Start(b.tb.Context()); err != nil {
		b.tb.Fatal(err)
	}
	b.tb.Cleanup(func() { _ = p.Stop(context.WithoutCancel(b.tb.Context())) })
	return p
}

// What the target has done is done; what it does not know is sent again, but
// only once no attempt can still be on its way; what it cannot say stays.
func TestProberResolves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old, young := b.unknown(4, time.Hour), b.unknown(1, time.Minute)[0]
	done, absent, unsure, broken := old[0], old[1], old[2], old[3]
	target := &answering{asked: map[string]int{}, found: map[string]effect.ProbeOutcome{}}
	for id, outcome := range map[inbox.ID]effect.ProbeOutcome{
		done: effect.ProbeDone, absent: effect.ProbeAbsent, unsure: effect.ProbeUnknown, broken: "panic", young: effect.ProbeAbsent,
	} {
		target.found["key-"+id.String()] = outcome
	}
	reports := make(chan jobs.ProbeReport, 100)
	b.prober(target, reports)
	resolved := map[inbox.ID]bool{}
	for range 5 {
		r := <-reports
		resolved[r.Effect] = r.Resolved
	}
	if len(resolved) != 5 || !resolved[done] || !resolved[absent] || resolved[unsure] || resolved[broken] || resolved[young] {
		t.Errorf("resolved: %v", resolved)
	}
	if got := b.text(`SELECT convert_from(result, 'UTF8') FROM effect WHERE id = $1`, done); got != `{"id":"ch_1"}` {
		t.Errorf("its result is %q, want what the target answered", got)
	}
	for id, want := range map[inbox.ID]string{
		done: "done", absent: "pending", unsure: "indeterminate", broken: "indeterminate", young: "indeterminate",
	} {
		if r := b.row(id); r.State != want {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if n := b.count(`SELECT count(*) FROM audit WHERE actor = 'probe' AND reason LIKE '%299%'`); n != 2 {
		t.Errorf("%d entries in the audit, want 2", n)
	}
	if n := b.count(`SELECT count(*) FROM river_job j JOIN effect e ON e.job_id = j.id WHERE e.id = $1`, absent); n != 1 {
		t.Errorf("the effect that is sent again has %d jobs", n)
	}
	// Each was asked about once: its pause is not over. Runs went by meanwhile.
	for range 3 {
		later := b.unknown(1, time.Hour)[0]
		for r := range reports {
			if r.Effect == later {
				break
			}
		}
	}
	for _, id := range append(old, young) {
		if n := target.count(id); n != 1 {
			t.Errorf("asked %d times", n)
		}
	}
}

// Four nodes ask about the same effects; each is resolved once, and however many
// there are, all are asked about.
func TestProbersAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.unknown(250, time.Hour)
	target := &answering{asked: map[string]int{}, found: map[string]effect.ProbeOutcome{}}
	for _, id := range ids {
		target.found["key-"+id.String()] = effect.ProbeDone
	}
	for range 4 {
		b.prober(target, nil)
	}
	b.eventually("all are done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == len(ids) })
	if n := b.count(`SELECT count(*) FROM audit`); n != len(ids) {
		t.Errorf("%d entries in the audit, want %d", n, len(ids))
	}
}

// An attempt that the sweeper had to end is told at once, like any other; that a
// target knew the key is kept with the attempt.
func TestReportsAreComplete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known, lost := b.admit(repeatable, 1)[0], b.admit(once, 1)[0]
	b.exec(`UPDATE effect SET state = 'claimed', lease_token = gen_random_uuid(), lease_until = now() - interval '1 minute',
		next_at = now() - interval '1 minute', attempts = 1, send_started_at = now() - interval '2 minutes' WHERE id = $1`, lost)
	reports := make(chan jobs.Report, 10)
	b.client(jobs.Config{
		SweepEvery: 20 * time.Millisecond, Observe: func(r jobs.Report) { reports <- r },
		Senders: senders(&sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
			return effect.Result{Outcome: effect.Done, Code: "200", Recognised: true}
		}}),
	})
	for range 2 {
		switch r := <-reports; r.Effect {
		case known:
			if r.Event != known || !r.Recognised || r.State != inbox.EffectDone {
				t.Errorf("%+v", r)
			}
		case lost:
			if r.Event != lost || r.State != inbox.EffectIndeterminate || r.Outcome != inbox.AttemptLost ||
				r.Reason != reasons.LeaseExpired || r.Source != "shop" || r.Attempt != 1 {
				t.Errorf("%+v", r)
			}
		}
	}
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE effect_id = $1 AND recognised`, known); n != 1 {
		t.Error("the attempt does not say that the key was known")
	}
}
