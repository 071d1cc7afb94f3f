package jobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// A person decides through a store that knows no routes, as the command line's does:
// what is held behind goes on all the same.
func TestAPersonsDecisionMovesTheStreamOn(t *testing.T) {
	t.Parallel()
	for as, want := range map[decide.Resolution]inbox.EffectState{decide.ResolveDone: inbox.EffectClaimed, decide.ResolveResend: inbox.EffectHeld} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(once, sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
			ids := b.sequenced(once, "order", "1", "2", "3")
			claim := b.claim(store, ids[0])
			b.try(store, ids[1])
			b.try(store, ids[2])
			b.end(store, claim, inbox.EffectIndeterminate)
			b.state(ids[1], inbox.EffectHeld, "")
			desk, err := inbox.NewEffects(inbox.EffectsConfig{Pool: b.pool, Enqueuer: b.queue, Node: "cli"})
			if err != nil {
				t.Fatal(err)
			}
			if err := decide.New(desk).Resolve(t.Context(), decide.Resolve{Effect: ids[0], As: as, Actor: "ann", Reason: "looked"}); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids[:2] {
				if r := b.row(id); r.State == "pending" && b.count(`SELECT count(*) FROM river_job WHERE id = $1`, r.JobID) == 1 {
					b.try(store, id)
				}
			}
			b.state(ids[1], want, b.reasonOf(ids[1]))
			b.state(ids[2], inbox.EffectHeld, "")
		})
	}
}

// The sweeper ends a lost attempt as its stream's order demands.
func TestALostAttemptInAStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route  string
		onDead sequence.OnDead
		first  inbox.EffectState
		second inbox.EffectState
	}{
		"repeatable":             {repeatable, "", inbox.EffectRetry, inbox.EffectHeld},
		"once, blocks":           {once, "", inbox.EffectIndeterminate, inbox.EffectHeld},
		"once, and others go on": {once, sequence.DeadSkip, inbox.EffectIndeterminate, inbox.EffectPending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(c.route, sequence.Policy{Mode: sequence.Contiguous, Start: "1", OnDead: c.onDead})
			ids := b.sequenced(c.route, "order", "1", "2")
			claim := b.claim(store, ids[0])
			if _, err := store.StartSend(t.Context(), claim, inbox.SendStart{Began: c.route == once}); err != nil {
				t.Fatal(err)
			}
			b.try(store, ids[1])
			b.exec(`UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE id = $1`, ids[0])
			if report := b.sweep(b.sweeper(nil)); report.Expired != 1 || report.Freed != 0 {
				t.Errorf("%+v, want one expired", report)
			}
			b.state(ids[0], c.first, reasons.LeaseExpired)
			b.state(ids[1], c.second, "")
			b.end(store, b.claimAgain(store, ids, c.first), inbox.EffectDone)
		})
	}
}

// claimAgain claims whichever of the two may go on.
func (b *bundle) claimAgain(store *inbox.Effects, ids []inbox.ID, first inbox.EffectState) *inbox.Claim {
	b.tb.Helper()
	b.exec(`UPDATE effect SET next_at = now() WHERE state = 'retry'`)
	if first == inbox.EffectRetry {
		return b.claim(store, ids[0])
	}
	b.exec(`UPDATE effect SET version = version`) // nothing: the second one is tried as it is
	if claim := b.try(store, ids[1]); claim != nil {
		return claim
	}
	desk := decide.Resolve{Effect: ids[0], As: decide.ResolveDone, Actor: "ann", Reason: "looked"}
	if err := decide.New(store).Resolve(b.tb.Context(), desk); err != nil {
		b.tb.Fatal(err)
	}
	return b.claim(store, ids[1])
}

// A dead effect that is given fresh attempts runs in its place.
func TestARearmedEffectRunsInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.ordered(repeatable, sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	ids := b.sequenced(repeatable, "order", "1", "2")
	b.end(store, b.claim(store, ids[0]), inbox.EffectDead)
	b.try(store, ids[1])
	if n, err := store.Rearm(t.Context(), ids[0]); err != nil || n != 1 {
		t.Fatalf("%d rearmed, %v", n, err)
	}
	if b.try(store, ids[1]) != nil {
		t.Fatal("2 began before 1, which is to be tried again")
	}
	b.end(store, b.claim(store, ids[0]), inbox.EffectDone)
	b.state(ids[1], inbox.EffectPending, "")
}

// One worker goes on with what follows, and no job is inserted for it.
func TestAWorkerGoesOn(t *testing.T) {
	t.Parallel()
	for _, route := range []string{repeatable, within} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.ordered(route, sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
			ids := b.sequenced(route, "order", "1", "2", "3", "4", "5")
			for _, id := range ids[1:] {
				b.try(store, id)
			}
			b.exec(`DELETE FROM river_job WHERE id NOT IN (SELECT job_id FROM effect WHERE sequence_number = 1)`)
			b.client(jobs.Config{Store: store})
			b.eventually("all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == len(ids) })
			b.eventually("the job to complete", func() bool { return b.count(`SELECT count(*) FROM river_job WHERE state = 'completed'`) == 1 })
			if n := b.count(`SELECT count(*) FROM river_job`); n != 1 {
				t.Errorf("%d jobs, want the one that went on", n)
			}
		})
	}
}

// In the database: an attempt that somebody else has ended leaves nothing behind,
// though its stream was never locked while it ran.
func TestAStaleHandlerOfAStreamLeavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE applied (event text)`)
	store := b.ordered(within, sequence.Policy{Mode: sequence.Contiguous, Start: "1"})
	ids := b.sequenced(within, "order", "1", "2")
	var runs atomic.Int64
	s := b.sweeper(nil)
	b.client(jobs.Config{Store: store, Transactionals: map[string]effect.Transactional{
		within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, e effect.Event) error {
			if _, err := tx.Exec(ctx, `INSERT INTO applied VALUES ($1)`, e.ID); err != nil {
				return err
			}
			if runs.Add(1) == 1 { // as if it had been away for longer than its lease
				if _, err := b.pool.Exec(ctx, `UPDATE effect SET lease_until = now() - interval '1 s', next_at = now() - interval '1 s' WHERE id = $1`, ids[0]); err != nil {
					return err
				}
				if _, err := s.Sweep(ctx); err != nil {
					return err
				}
			}
			return nil
		}),
	}})
	b.within(time.Minute, "both done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 2 })
	if n := b.count(`SELECT count(*) FROM applied`); n != 2 {
		t.Errorf("%d rows applied, want 2", n)
	}
	// One that meets the stream locked by the other at its end is rolled back and runs
	// again: that is a run more, and no attempt.
	if n := runs.Load(); n < 3 {
		t.Errorf("%d runs, want 3 at least", n)
	}
	if n := b.count(`SELECT count(*) FROM effect_attempt`); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}
