package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/jobs"
)

// replays are on the bundle's own pool.
func (b *bundle) replays(cfg replay.Config) *replay.Store {
	b.tb.Helper()
	return b.replaysOn(b.work, cfg)
}

func (b *bundle) replaysOn(pool *pgxpool.Pool, cfg replay.Config) *replay.Store {
	b.tb.Helper()
	cfg.Pool = pool
	if cfg.Store == nil {
		cfg.Store = b.store("node-1")
	}
	r, err := replay.New(cfg)
	if err != nil {
		b.tb.Fatal(err)
	}
	return r
}

// died lets every effect there is use up its attempts: with the rows of two of
// them, and no job.
func (b *bundle) died() {
	b.tb.Helper()
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', last_code = '503', next_at = NULL, attempts = 2`)
	b.exec(`INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code, excerpt)
		SELECT e.id, n, 1, CASE n WHEN 1 THEN 'initial' ELSE 'automatic' END, 'old', now(), now(), CASE n WHEN 1 THEN 'retry' ELSE 'dead' END, '503', 'closed for the night'
		FROM effect e, generate_series(1, 2) n`)
}

const actor, why = "ann", "the bank is back"

func plan(tb testing.TB, r *replay.Store, scope replay.Scope, o replay.Options) *replay.Replay {
	tb.Helper()
	p, err := r.Plan(tb.Context(), replay.PlanRequest{Scope: scope, Options: o, Actor: actor})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func start(tb testing.TB, r *replay.Store, p *replay.Replay) {
	tb.Helper()
	if _, err := r.Start(tb.Context(), replay.StartRequest{ID: p.ID, Digest: p.Digest, Actor: actor, Reason: why}); err != nil {
		tb.Fatal(err)
	}
}

// started admits effects, has them die, and begins a replay of all of them.
func (b *bundle) started(n int, cfg replay.Config) ([]inbox.ID, *replay.Store, *replay.Replay) {
	b.tb.Helper()
	ids := b.admit(repeatable, n)
	b.died()
	r := b.replays(cfg)
	p := plan(b.tb, r, everything(), replay.Options{})
	start(b.tb, r, p)
	return ids, r, p
}

// run makes steps until the replay has ended, and gives how many items they took.
func run(tb testing.TB, r *replay.Store, id inbox.ID) int {
	tb.Helper()
	for n := 0; ; {
		step, err := r.Step(tb.Context(), id)
		if err != nil {
			tb.Fatal(err)
		}
		if n += step.Items; step.State != replay.Running {
			return n
		}
	}
}

func everything() replay.Scope {
	return replay.Scope{DeadFilter: read.DeadFilter{Source: "shop"}}
}

func TestAReplayRunsDeadEffectsAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 3)
	b.died()
	attempts := b.text(`SELECT string_agg(a::text, E'\n' ORDER BY a) FROM effect_attempt a`)
	bodies := b.text(`SELECT string_agg(body::text, '' ORDER BY id) FROM inbox_body`)
	r := b.replays(replay.Config{Chunk: 2})
	p := plan(t, r, everything(), replay.Options{})
	if p.State != replay.Planned || p.Summary.Items != 3 || p.Summary.ToDo != 3 || len(p.Digest) != 64 {
		t.Fatalf("%+v", p)
	}
	b.exec(`UPDATE effect SET rearms = 3`) // a replay gives redeliveries their say back
	target := &sink{idempotent: true}
	b.client(jobs.Config{Replays: r, Senders: senders(target)})
	start(t, r, p)
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
		if row := b.row(id); row.Version != 2 || row.Attempts != 1 || row.Rearms != 0 || target.got(id) != 1 {
			t.Errorf("%+v, sent %d times; want one fresh attempt under the same key", row, target.got(id))
		}
	}
	b.eventually("the replay to end", func() bool {
		p, err := r.Status(t.Context(), p.ID)
		return err == nil && p.State == replay.Done && p.FinishedAt != nil && p.Left() == 0
	})
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE version = 2 AND attempt = 1 AND trigger = 'replay'`); n != 3 {
		t.Errorf("%d attempts say that they are of a replay, want 3", n)
	}
	if b.text(`SELECT string_agg(a::text, E'\n' ORDER BY a) FROM effect_attempt a WHERE version = 1`) != attempts ||
		b.text(`SELECT string_agg(body::text, '' ORDER BY id) FROM inbox_body`) != bodies {
		t.Error("the first attempts or the bytes have changed")
	}
	if got := b.text(`SELECT string_agg(action || ' by ' || actor, ', ' ORDER BY id) FROM audit`); got != "replay.plan by ann, replay.run by ann" {
		t.Errorf("the audit says %q", got)
	}
	effects, err := r.Effects(t.Context(), p.ID)
	if got := effects[p.ID]; err != nil || got == nil || got.Done != 3 || got.Open != 0 || got.States["done"] != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func (b *bundle) text(sql string, args ...any) string {
	b.tb.Helper()
	var s *string
	if err := b.pool.QueryRow(b.tb.Context(), sql, args...).Scan(&s); err != nil {
		b.tb.Fatal(err)
	}
	if s == nil {
		return ""
	}
	return *s
}

func TestANewKeyIsDerivedAndKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(once, 1)[0]
	b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now(), rendered = 'old bytes', unknown_since = now()`)
	r := b.replays(replay.Config{})
	for version := 2; version <= 3; version++ {
		p := plan(t, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{IncludeDone: true, NewKey: true})
		start(t, r, p)
		run(t, r, p.ID)
		want := fmt.Sprintf("key-%s~v%d", id, version)
		if got := b.text(`SELECT idempotency_key FROM effect WHERE rendered IS NULL AND unknown_since IS NULL`); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
		b.exec(`UPDATE effect SET state = 'done', next_at = NULL, finished_at = now()`)
	}
}

func TestAReplayUnderTheOldKeySendsTheOldBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	b.died()
	b.exec(`UPDATE effect SET rendered = 'old bytes', unknown_since = now()`)
	r := b.replays(replay.Config{})
	p := plan(t, r, everything(), replay.Options{})
	start(t, r, p)
	run(t, r, p.ID)
	if row := b.row(id); string(row.Rendered) != "old bytes" || b.text(`SELECT idempotency_key FROM effect WHERE unknown_since IS NOT NULL`) != "key-"+id.String() {
		t.Errorf("%+v", row)
	}
}

func TestAReplayIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		start  replay.StartRequest
		want   error
	}{
		"another digest":           {``, replay.StartRequest{Digest: "0123456789abcdef", Actor: actor, Reason: why}, replay.ErrDigest},
		"too little of the digest": {``, replay.StartRequest{Digest: "0", Actor: actor, Reason: why}, replay.ErrDigest},
		"no reason":                {``, replay.StartRequest{Actor: actor}, inbox.ErrUnexplained},
		"no actor":                 {``, replay.StartRequest{Reason: why}, inbox.ErrUnexplained},
		"expired":                  {`UPDATE replay SET expires_at = now()`, replay.StartRequest{Actor: actor, Reason: why}, replay.ErrState},
		"cancelled":                {`UPDATE replay SET state = 'cancelled'`, replay.StartRequest{Actor: actor, Reason: why}, replay.ErrState},
		"planning still":           {`UPDATE replay SET state = 'planning'`, replay.StartRequest{Actor: actor, Reason: why}, replay.ErrState},
		"an item more": {`INSERT INTO replay_item (replay_id, position, event_id, route_id, action) SELECT id, 99, id, 1, 'create' FROM replay`,
			replay.StartRequest{Actor: actor, Reason: why}, replay.ErrDigest},
		"another effect":  {`UPDATE replay_item SET effect_id = gen_random_uuid()`, replay.StartRequest{Actor: actor, Reason: why}, replay.ErrDigest},
		"another version": {`UPDATE replay_item SET effect_version = 2`, replay.StartRequest{Actor: actor, Reason: why}, replay.ErrDigest},
		"another action":  {`UPDATE replay_item SET action = 'new_key'`, replay.StartRequest{Actor: actor, Reason: why}, replay.ErrDigest},
		"a rate below 0":  {``, replay.StartRequest{Actor: actor, Reason: why, Rate: -1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			b.died()
			r := b.replays(replay.Config{})
			p := plan(t, r, everything(), replay.Options{})
			if c.change != "" {
				b.exec(c.change)
			}
			c.start.ID = p.ID
			if _, err := r.Start(t.Context(), c.start); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if step, err := r.Step(t.Context(), p.ID); err != nil || step.Items != 0 || b.row(id).State != "dead" {
				t.Errorf("%+v, %v, %+v", step, err, b.row(id))
			}
			if n := b.count(`SELECT count(*) FROM river_job`); n != 0 {
				t.Errorf("%d jobs", n)
			}
		})
	}
	b := setup(t)
	if _, err := b.replays(replay.Config{}).Start(t.Context(), replay.StartRequest{ID: inbox.NewID(time.Now()), Actor: actor, Reason: why}); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestWhatHasChangedSinceThePlanIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *bundle, id inbox.ID)
		want   replay.ItemOutcome
	}{
		"rearmed": {func(b *bundle, id inbox.ID) {
			if n, err := b.store("node-1").Rearm(b.tb.Context(), id); n != 1 || err != nil {
				b.tb.Fatalf("%d rearmed, %v", n, err)
			}
		}, replay.ItemChanged},
		"rearmed and dead again": {func(b *bundle, _ inbox.ID) { b.exec(`UPDATE effect SET version = 2`) }, replay.ItemChanged},
		"discarded": {func(b *bundle, id inbox.ID) {
			if _, err := decide.New(b.store("node-1")).Discard(b.tb.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: actor, Reason: why}); err != nil {
				b.tb.Fatal(err)
			}
			b.exec(`UPDATE effect SET version = 2`) // and more
		}, replay.ItemDecidedSince},
		"erased": {func(b *bundle, _ inbox.ID) { b.exec(`DELETE FROM effect`) }, replay.ItemGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			b.died()
			r := b.replays(replay.Config{})
			p := plan(t, r, everything(), replay.Options{})
			start(t, r, p)
			c.change(b, id)
			before := b.text(`SELECT max(e::text) FROM effect e`)
			run(t, r, p.ID)
			if after := b.text(`SELECT max(e::text) FROM effect e`); after != before {
				t.Errorf("%s became %s", before, after)
			}
			p, err := r.Status(t.Context(), p.ID)
			if err != nil || p.Summary.Outcomes[c.want] != 1 || p.State != replay.Done {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// A redelivery asks for fresh attempts of what is dead, and finds nothing to do
// for what a replay has moved on.
func TestARedeliveryDuringAReplayIsHarmless(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(20, replay.Config{Chunk: 3})
	var wait sync.WaitGroup
	store := b.store("node-1")
	wait.Go(func() {
		for _, id := range slices.Backward(ids) {
			if _, err := store.Rearm(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	})
	wait.Go(func() { run(t, r, p.ID) })
	wait.Wait()
	if n := b.count(`SELECT count(*) FROM effect WHERE state = 'pending' AND version = 2`); n != len(ids) {
		t.Errorf("%d effects have fresh attempts once, want %d", n, len(ids))
	}
	target := &sink{idempotent: true}
	b.client(jobs.Config{Replays: r, Senders: senders(target)})
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
		if target.got(id) != 1 {
			t.Errorf("sent %d times", target.got(id))
		}
	}
}

func TestCancelLeavesWhatIsNotDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 5
	ids := b.admit(repeatable, n)
	for steps := 0; steps <= n; steps++ {
		b.exec(`DELETE FROM effect_attempt`)
		b.exec(`UPDATE effect SET version = 1`)
		b.died()
		r := b.replays(replay.Config{Chunk: 1})
		p := plan(t, r, everything(), replay.Options{})
		if steps > 0 {
			start(t, r, p)
		}
		for range steps {
			if _, err := r.Step(t.Context(), p.ID); err != nil {
				t.Fatal(err)
			}
		}
		c, err := r.Cancel(t.Context(), replay.CancelRequest{ID: p.ID, Actor: actor, Reason: why})
		if err != nil || c.State != replay.Cancelled || c.FinishedAt == nil {
			t.Fatalf("after %d steps: %+v, %v", steps, c, err)
		}
		if step, err := r.Step(t.Context(), p.ID); err != nil || step.Items != 0 || step.State != replay.Cancelled {
			t.Errorf("a step after it: %+v, %v", step, err)
		}
		if moved := b.count(`SELECT count(*) FROM effect WHERE state = 'pending' AND version = 2 AND job_id IN (SELECT id FROM river_job)`); moved != steps {
			t.Errorf("%d moved after %d steps", moved, steps)
		}
		if left := b.count(`SELECT count(*) FROM effect e JOIN replay_item i ON i.effect_id = e.id
			WHERE i.replay_id = $1 AND NOT EXISTS (SELECT FROM replay_outcome o WHERE o.replay_id = i.replay_id AND o.position = i.position) AND e.state = 'dead' AND e.version = 1`, p.ID); left != n-steps {
			t.Errorf("%d left after %d steps", left, steps)
		}
		if _, err := r.Start(t.Context(), replay.StartRequest{ID: p.ID, Actor: actor, Reason: why}); !errors.Is(err, replay.ErrState) {
			t.Errorf("run again: %v", err)
		}
		if _, err := r.Cancel(t.Context(), replay.CancelRequest{ID: p.ID, Actor: actor, Reason: why}); !errors.Is(err, replay.ErrState) {
			t.Errorf("cancelled twice: %v", err)
		}
	}
	_ = ids
	if got := b.count(`SELECT count(*) FROM audit WHERE action = 'replay.cancel' AND before ->> 'state' IN ('planned', 'running') AND after ->> 'state' = 'cancelled'`); got != n+1 {
		t.Errorf("%d cancellations in the audit", got)
	}
}

func TestALostReplayJobIsFoundAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(3, replay.Config{})
	sweeper, err := jobs.NewSweeper(jobs.SweeperConfig{
		Pool: b.work, Store: b.store("node-1"), Replays: r, Logger: testLogger(t), Every: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	sweep := func(want int) {
		t.Helper()
		if n, err := sweeper.SweepReplays(t.Context()); err != nil || n != want {
			t.Fatalf("%d woken, %v, want %d", n, err, want)
		}
	}
	sweep(0)
	if again, err := r.Start(t.Context(), replay.StartRequest{ID: p.ID, Digest: p.Digest, Actor: "bob", Reason: "is it stuck?", Rate: 1}); err != nil || again.State != replay.Running || again.Rate != 0 {
		t.Fatalf("%+v, %v: run again is a new wake-up and nothing else", again, err)
	}
	if n := b.count(`SELECT count(*) FROM river_job WHERE kind = 'replay' AND queue = 'replay'`); n != 2 {
		t.Errorf("%d jobs", n)
	}
	if n := b.count(`SELECT count(*) FROM audit WHERE actor = 'bob' AND action = 'replay.run' AND after ->> 'woken' = 'true'`); n != 1 {
		t.Error("the audit does not say who woke it")
	}
	b.exec(`UPDATE river_job SET state = 'running', attempted_at = now()`)
	sweep(0)
	held, err := r.Acquire(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE river_job SET state = 'running', attempted_at = now() - interval '10 s'`)
	sweep(0) // its process lives, and the step takes its time
	b.exec(`SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 2 AND objid::bigint = hashtext($1::uuid::text)::bigint & 4294967295`, p.ID)
	held.Release()
	b.eventually("the replay to be missed", func() bool {
		n, err := sweeper.SweepReplays(t.Context())
		return err == nil && n == 1
	})
	sweep(0)
	b.exec(`UPDATE river_job SET state = 'running', attempted_at = now() - interval '1 min'`)
	if held, err = r.Acquire(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	sweep(1) // a host that is gone may hold it for hours
	held.Release()
	sweep(0)
	b.exec(`TRUNCATE river_job`)
	sweep(1)
	b.client(jobs.Config{Replays: r})
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
	}
	b.eventually("the replay to end", func() bool {
		p, err := r.Status(t.Context(), p.ID)
		return err == nil && p.State == replay.Done
	})
	b.exec(`TRUNCATE river_job`)
	sweep(0)
}

func TestResultsThatSayFailureAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 3)
	b.died()
	// The third is a duplicate of the second, which stays as it is.
	b.exec(`UPDATE effect SET state = 'duplicate', duplicate_of = $1, finished_at = now(), reason = NULL WHERE id = $2`, ids[0], ids[2])
	for i, status := range []string{"failed", "done", "failed"} {
		b.exec(`INSERT INTO operation_result (event_id, status, document, rendered_at) VALUES ($1, $2, 'x', now())`, ids[i], status)
	}
	r := b.replays(replay.Config{})
	p := plan(t, r, replay.Scope{IDs: ids[:2]}, replay.Options{})
	start(t, r, p)
	run(t, r, p.ID)
	if got := b.text(`SELECT string_agg(status, ' ') FROM operation_result`); got != "done" {
		t.Errorf("the results that stand are %q, want only what is done", got)
	}
}

// dump is everything but plans and the audit, as text.

// A replay is done when its effects have ended, and not when all items were taken. Until then it is queued, and says how many
// effects are open and what they wait for. Once it is done it stays done, whatever happens to its effects later.
func TestAReplayIsDoneWhenItsEffectsAre(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids, r, p := b.started(3, replay.Config{})
	step, err := r.Step(t.Context(), p.ID)
	if err != nil || step.State != replay.Queued {
		t.Fatalf("%+v, %v", step, err)
	}
	expect := func(when string, state replay.State, ended bool, open, done, dead int, waits string) {
		t.Helper()
		now, err := r.Status(t.Context(), p.ID)
		if err != nil || now.State != state || (now.FinishedAt != nil) != ended {
			t.Errorf("%s: %+v, %v; want %s", when, now, err, state)
		}
		for _, s := range []replay.State{replay.Queued, replay.Done} {
			page, err := r.List(t.Context(), replay.Filter{State: s})
			if err != nil || (len(page.Data) == 1) != (s == state) {
				t.Errorf("%s: the list of those that are %s is %+v, %v", when, s, page.Data, err)
			}
		}
		all, err := r.Effects(t.Context(), p.ID)
		if e := all[p.ID]; err != nil || e.Open != open || e.Done != done || e.Dead != dead || e.Waits() != waits {
			t.Errorf("%s: %+v, %v", when, e, err)
		}
	}
	settled := func(when, want string) {
		t.Helper()
		if err := r.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.text(`SELECT state FROM replay`); got != want {
			t.Errorf("%s: %s is stored, want %s", when, got, want)
		}
	}
	expect("taken", replay.Queued, false, 3, 0, 0, "")
	settled("taken", "queued")
	b.exec(`UPDATE effect SET reason = 'paused'`)
	expect("paused", replay.Queued, false, 3, 0, 0, "3 until their route or target is resumed")
	b.exec(`UPDATE effect SET state = 'done', reason = NULL, next_at = NULL, finished_at = now() WHERE id = $1`, ids[0])
	b.exec(`UPDATE effect SET reason = 'target_open' WHERE id <> $1`, ids[0])
	expect("one done", replay.Queued, false, 2, 1, 0, "2 until their target, which fails, is tried again")
	b.exec(`UPDATE effect SET state = 'dead', reason = 'timeout', next_at = NULL WHERE id <> $1`, ids[0])
	expect("ended", replay.Done, true, 0, 1, 2, "")
	b.exec(`UPDATE replay SET next_at = now() + interval '1 minute'`)
	settled("looked at a moment ago", "queued")
	b.exec(`UPDATE replay SET next_at = now()`)
	settled("due", "done")
	expect("swept", replay.Done, true, 0, 1, 2, "")
	b.exec(`UPDATE effect SET state = 'pending', reason = NULL, next_at = now() WHERE id <> $1`, ids[0])
	expect("replayed by another", replay.Done, true, 2, 1, 0, "")
}
