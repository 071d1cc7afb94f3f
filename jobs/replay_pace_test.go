package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/replay"
)

// paced is a replay of n dead effects that runs at a rate.
func paced(t *testing.T, n int, rate float32) (*bundle, *replay.Store, *replay.Replay) {
	t.Helper()
	b := setup(t)
	b.admit(repeatable, n)
	b.died()
	r := b.replays(replay.Config{})
	p := plan(t, r, everything(), replay.Options{})
	if _, err := r.Start(t.Context(), replay.StartRequest{ID: p.ID, Actor: actor, Reason: why, Rate: rate}); err != nil {
		t.Fatal(err)
	}
	return b, r, p
}

func TestTheRatePacesTheSteps(t *testing.T) {
	t.Parallel()
	b, r, p := paced(t, 12, 20)
	b.exec(`UPDATE replay SET next_at = now() - interval '10 min'`)
	// Each step takes a quarter of a second's worth, or a few, and puts the next one off
	// by as much; what was late is made up for by a quarter of a second's worth, not more.
	step := func(items int, ahead float64) {
		t.Helper()
		s, err := r.Step(t.Context(), p.ID)
		if err != nil || s.Items != items {
			t.Fatalf("%+v, %v, want %d items", s, err, items)
		}
		var got float64
		if err := b.pool.QueryRow(t.Context(), `SELECT extract(epoch FROM r.next_at - max(o.acted_at)) FROM replay r, replay_outcome o GROUP BY r.id`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got < ahead-0.001 || got > ahead+0.001 {
			t.Errorf("the next step is %f s after this one, want %f", got, ahead)
		}
	}
	step(5, 0)
	b.exec(`UPDATE replay SET next_at = now() + interval '1 h'`)
	if s, err := r.Step(t.Context(), p.ID); err != nil || s.Items != 0 || s.Wait < 59*time.Minute || s.State != replay.Running {
		t.Fatalf("%+v, %v, want it to wait", s, err)
	}
	b.exec(`UPDATE replay SET next_at = now() - interval '1 h'`)
	step(5, 0)
	b.exec(`UPDATE replay SET next_at = now() - interval '1 h'`)
	step(2, -0.15)
	p, err := r.Status(t.Context(), p.ID)
	if err != nil || p.State != replay.Queued || p.Rate != 20 {
		t.Errorf("%+v, %v", p, err)
	}
}

// At a high rate a step is a twentieth of a second's worth.
func TestAFastReplayIsManySteps(t *testing.T) {
	t.Parallel()
	b, r, p := paced(t, 80, 1000)
	for _, want := range []int{50, 30} {
		b.exec(`UPDATE replay SET next_at = now()`)
		if s, err := r.Step(t.Context(), p.ID); err != nil || s.Items != want {
			t.Fatalf("%+v, %v, want %d items", s, err, want)
		}
	}
}

// A step tells the workers when it has committed; nothing else here would: no client
// runs that could poll.
func TestAStepWakesTheWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, r, p := b.started(3, replay.Config{})
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), fmt.Sprintf("LISTEN %q", b.text(`SELECT current_schema()::text`)+".river_insert")); err != nil {
		t.Fatal(err)
	}
	if step, err := r.Step(t.Context(), p.ID); err != nil || step.Items != 3 {
		t.Fatalf("%+v, %v, want 3 items", step, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
		t.Fatalf("nobody was told: %v", err)
	}
	if n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'effect' AND state = 'available' AND priority > 2`); n != 3 {
		t.Errorf("%d jobs are ready, want 3", n)
	}
}

// The effects of a paced step go out one after the other, until the next one is due.
func TestAStepSpreadsItsEffects(t *testing.T) {
	t.Parallel()
	b, r, p := paced(t, 5, 20)
	if s, err := r.Step(t.Context(), p.ID); err != nil || s.Items != 5 {
		t.Fatalf("%+v, %v", s, err)
	}
	const spread = `SELECT string_agg(extract(milliseconds FROM j.scheduled_at - j.created_at)::int::text, ' ' ORDER BY i.position)
		FROM replay_item i JOIN effect e ON e.id = i.effect_id JOIN river_job j ON j.id = e.job_id`
	if got, want := b.text(spread), "0 50 100 150 200"; got != want {
		t.Errorf("milliseconds until they may be taken: %s, want %s", got, want)
	}
}
