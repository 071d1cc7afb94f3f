package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// receivedAt dates effects' events and, where they are there, the jobs.
func (b *bundle) receivedAt(at time.Time, ids ...inbox.ID) {
	b.tb.Helper()
	b.exec(`UPDATE inbox_event SET received_at = $2 WHERE id = ANY ($1)`, ids, at)
	b.exec(`UPDATE river_job SET scheduled_at = $2 WHERE id IN (SELECT job_id FROM effect WHERE id = ANY ($1))`, ids, at)
}

// However an effect is woken, and by whom, its wake-up has the place in the queue that its
// event had: the ways by which one gets a new job.
func TestEveryWakeUpHasThePlaceOfItsEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	received := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	contiguous := sequence.Policy{Mode: sequence.Contiguous, Start: "1"}
	const hold = `UPDATE effect SET state = 'held', next_at = NULL, job_id = NULL WHERE id = $1`
	const dead = `UPDATE effect SET state = 'dead', reason = 'status_4xx', next_at = NULL WHERE id = $1`
	for _, way := range []struct {
		name   string
		policy sequence.Policy
		wake   func(store *inbox.Effects, key string, first, second inbox.ID)
		place  string // in SQL; empty is the event's place
		last   bool
	}{
		{name: "the one before it settles", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			claim := b.claim(store, first)
			b.exec(hold, second)
			b.end(store, claim, inbox.EffectDone)
		}},
		{name: "a worker that does not know the route ends the one before it", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			claim := b.claim(store, first)
			b.exec(hold, second)
			b.end(b.strange(), claim, inbox.EffectDone)
		}},
		{name: "its attempt is taken back", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.end(store, b.claim(store, first), inbox.EffectDone)
			claim := b.claim(store, second)
			_, err := store.Settle(t.Context(), inbox.Settlement{
				Effect: second, Token: claim.Token, State: inbox.EffectPending, Reason: reasons.Saturated, Trigger: claim.Trigger,
				StartedAt: claim.StartedAt, RouteID: claim.RouteID, SequenceKeyHash: claim.SequenceKeyHash, NewJob: true,
			})
			if err != nil {
				t.Fatal(err)
			}
		}},
		{name: "its attempt failed, and it is put off", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.end(store, b.claim(store, first), inbox.EffectDone)
			claim := b.claim(store, second)
			_, err := store.Settle(t.Context(), inbox.Settlement{
				Effect: second, Token: claim.Token, State: inbox.EffectRetry, Reason: reasons.Timeout, After: time.Hour, Outcome: inbox.AttemptRetry,
				Trigger: claim.Trigger, StartedAt: claim.StartedAt, RouteID: claim.RouteID, SequenceKeyHash: claim.SequenceKeyHash, NewJob: true,
			})
			if err != nil {
				t.Fatal(err)
			}
		}, place: `(SELECT created_at FROM river_job j WHERE j.id = e.job_id)`},
		{name: "a person skips what blocks it", policy: contiguous, wake: func(store *inbox.Effects, key string, first, second inbox.ID) {
			b.exec(dead, first)
			b.exec(hold, second)
			b.exec(`UPDATE stream SET blocked_by = $1, applied = 0 WHERE key_label = $2`, first, key)
			err := decide.New(store).PassStream(t.Context(), decide.PassStream{
				Stream: int64(b.count(`SELECT id FROM stream WHERE key_label = $1`, key)), As: decide.StreamSkip, Blocker: first, Actor: "ops", Reason: "known",
			})
			if err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a person decides about it", policy: contiguous, wake: func(store *inbox.Effects, _ string, _, second inbox.ID) {
			b.exec(hold, second)
			b.exec(`UPDATE effect SET reason = 'sequence_number_taken' WHERE id = $1`, second)
			if _, err := decide.New(store).EndUndecided(t.Context(), decide.EndUndecided{Effects: []inbox.ID{second}, As: decide.UndecidedApply, Actor: "ops", Reason: "known"}); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "its patience has run out", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.exec(dead, first)
			b.exec(`UPDATE effect SET state = 'held', next_at = now() - interval '1 s', job_id = NULL WHERE id = $1`, second)
			b.sweep(b.sweeper(nil))
		}},
		{name: "its job was lost", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.exec(dead, first)
			b.exec(`DELETE FROM river_job WHERE id = (SELECT job_id FROM effect WHERE id = $1)`, second)
			b.sweep(b.sweeper(nil))
		}},
		{name: "the job of its retry was lost", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.exec(dead, first)
			b.exec(`UPDATE effect SET state = 'retry', attempts = 1, next_at = now() - interval '1 min' WHERE id = $1`, second)
			b.exec(`DELETE FROM river_job WHERE id = (SELECT job_id FROM effect WHERE id = $1)`, second)
			b.sweep(b.sweeper(nil))
		}, place: `e.next_at`},
		{name: "it was held for no reason", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.end(store, b.claim(store, first), inbox.EffectDone)
			b.exec(hold, second)
			if n, err := store.CheckHeld(t.Context()); err != nil || n != 1 {
				t.Fatalf("%d, %v", n, err)
			}
		}},
		{name: "its route has no order any more", wake: func(store *inbox.Effects, _ string, _, second inbox.ID) {
			b.exec(hold, second)
			if _, err := store.CheckHeld(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a replay sends it, behind what is delivered now", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			claim := b.claim(store, first)
			b.exec(hold, second)
			b.exec(`UPDATE effect SET fresh_trigger = 'replay', rearmed_at = now() - interval '5 min' WHERE id = $1`, second)
			b.end(store, claim, inbox.EffectDone)
		}, place: `e.rearmed_at`, last: true},
		{name: "its event is dated ahead", policy: contiguous, wake: func(store *inbox.Effects, _ string, first, second inbox.ID) {
			b.receivedAt(time.Now().Add(time.Hour), second)
			claim := b.claim(store, first)
			b.exec(hold, second)
			b.end(store, claim, inbox.EffectDone)
		}, place: `(SELECT created_at FROM river_job j WHERE j.id = e.job_id)`},
	} {
		b.order = map[string]sequence.Policy{repeatable: way.policy}
		store := b.store("node-1")
		ids := b.sequenced(repeatable, way.name, "1", "2")
		b.receivedAt(received, ids...)
		way.wake(store, way.name, ids[0], ids[1])
		place, priority := way.place, 2
		if place == "" {
			place = `(SELECT received_at FROM inbox_event v WHERE v.id = e.event_id)`
		}
		if way.last {
			priority = 4
		}
		if n := b.count(`SELECT count(*) FROM effect e JOIN river_job j ON j.id = e.job_id
			WHERE e.id = $1 AND j.priority = $2 AND abs(extract(epoch FROM j.scheduled_at - `+place+`)) < 0.01`, ids[1], priority); n != 1 {
			t.Errorf("%s: the place is %s", way.name, b.text(`SELECT coalesce(min(concat_ws(' ', j.scheduled_at, j.priority, ', want', `+place+`)), 'none')
				FROM effect e JOIN river_job j ON j.id = e.job_id WHERE e.id = $1`, ids[1]))
		}
		b.exec(`UPDATE effect SET state = 'done', finished_at = now(), next_at = NULL, lease_token = NULL, lease_until = NULL, reason = NULL WHERE state <> 'done'`)
	}
}

// strange is a store that knows none of the routes.
func (b *bundle) strange() *inbox.Effects {
	b.tb.Helper()
	store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: b.work, Enqueuer: b.queue, Node: "strange"})
	if err != nil {
		b.tb.Fatal(err)
	}
	return store
}

// places is the order in which a target was asked for effects.
type places struct {
	mu    sync.Mutex
	order []string // keys
	after func(n int, key string)
}

func (p *places) sink(idempotent bool) *sink {
	return &sink{idempotent: idempotent, answer: func(_ context.Context, call *effect.Call) effect.Result {
		p.mu.Lock()
		p.order = append(p.order, call.Key)
		n := len(p.order)
		p.mu.Unlock()
		if p.after != nil {
			p.after(n, call.Key)
		}
		return effect.Result{Outcome: effect.Done, Code: "200"}
	}}
}

func (p *places) client(b *bundle) {
	b.client(jobs.Config{
		MaxWorkers: 2, Store: b.store("node-1"),
		Senders: map[string]effect.Sender{repeatable: p.sink(true), once: p.sink(false)},
	})
}

// In a backlog, ordered and unordered effects run at the places at which they were
// received: a worker does not continue a stream past what came before, and an effect that was
// held returns to its place when a person releases it.
func TestOrderedAndUnorderedEffectsWaitEquallyLong(t *testing.T) {
	t.Parallel()
	const events, keys, held, most = 300, 4, 30, 40
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1"}}
	begin := time.Now().Add(-time.Hour)
	received := map[string]int{} // by key: the place of the event
	admit := func(at int, id inbox.ID) {
		b.receivedAt(begin.Add(time.Duration(at)*time.Second), id)
		received["key-"+id.String()] = at
	}
	for i := range events {
		if i%2 == 0 {
			admit(i, b.admit(once, 1)[0])
			continue
		}
		k := (i / 2) % keys
		admit(i, b.sequenced(repeatable, "key-"+strconv.Itoa(k), strconv.Itoa(1+i/2/keys))[0])
	}
	// One key is blocked, with more effects that wait for it and were received before all of this.
	numbers := make([]string, held+1)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i + 1)
	}
	stuck := b.sequenced(repeatable, "stuck", numbers...)
	b.exec(`UPDATE effect SET state = 'held', next_at = NULL, job_id = NULL WHERE id = ANY ($1)`, stuck)
	b.exec(`UPDATE effect SET state = 'dead', reason = 'status_4xx' WHERE id = $1`, stuck[0])
	b.exec(`UPDATE stream SET blocked_by = $1, applied = 0 WHERE key_label = 'stuck'`, stuck[0])
	b.exec(`DELETE FROM river_job j WHERE NOT EXISTS (SELECT FROM effect e WHERE e.job_id = j.id)`)
	for i, id := range stuck[1:] {
		admit(i-held, id)
	}
	err := decide.New(b.store("ops")).PassStream(t.Context(), decide.PassStream{
		Stream: int64(b.count(`SELECT id FROM stream WHERE key_label = 'stuck'`)), As: decide.StreamSkip, Blocker: stuck[0], Actor: "ops", Reason: "known",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &places{}
	p.client(b)
	b.eventually("the backlog is gone", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state NOT IN ('done', 'skipped')`) == 0 })
	early, late := 0, 0
	for place, key := range p.order {
		early, late = min(early, place-held-received[key]), max(late, place-held-received[key])
	}
	t.Logf("up to %d places early and %d late", -early, late)
	if len(p.order) != events+held || late > most || early < -most {
		t.Errorf("%d effects ran, up to %d places before the one at which they were received and %d behind it; want %d, and at most %d",
			len(p.order), -early, late, events+held, most)
	}
}

// In mode latest, a key that gets versions all the time is not starved by a backlog: its
// newest version runs as soon as any of its wake-ups comes, so that every version, or a
// newer one, is at the target by its own place in the queue.
func TestLatestRunsTheNewestVersionInABacklog(t *testing.T) {
	t.Parallel()
	const backlog, versions, most = 30, 30, 12
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Latest}}
	var mu sync.Mutex
	admitted := 0
	place := make([]int, versions+1) // of each version in the queue
	version := map[string]int{}
	appliedAt := map[int]int{} // by version
	receive := func(v int) {
		if v == 0 {
			b.admit(once, 1)
		} else {
			id := b.sequenced(repeatable, "row", strconv.Itoa(v))[0]
			version["key-"+id.String()], place[v] = v, admitted
		}
		admitted++
	}
	next, ran := 1, 0
	p := &places{after: func(_ int, key string) {
		mu.Lock()
		defer mu.Unlock()
		if v := version[key]; v > 0 {
			appliedAt[v] = ran
			return
		}
		ran++
		if next <= versions { // as much comes as is done
			receive(0)
			if ran%4 == 0 {
				receive(next)
				next++
			}
		}
	}}
	for range backlog {
		receive(0)
	}
	p.client(b)
	b.eventually("the backlog is gone", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE sequence_number IS NOT NULL`) == versions && b.count(`SELECT count(*) FROM effect WHERE state NOT IN ('done', 'superseded')`) == 0
	})
	mu.Lock()
	defer mu.Unlock()
	applied := make([]int, 0, versions)
	for v := range appliedAt {
		applied = append(applied, v)
	}
	slices.Sort(applied)
	lag := 0
	for v := 1; v <= versions; v++ {
		at, _ := slices.BinarySearch(applied, v)
		if at == len(applied) {
			t.Fatalf("version %d was never applied, nor a newer one", v)
		}
		// Unordered effects are counted only; of the places before its own, place[v]-(v-1) are theirs.
		lag = max(lag, appliedAt[applied[at]]-(place[v]-(v-1)))
	}
	t.Logf("%d of %d versions applied, at most %d places late", len(applied), versions, lag)
	if lag > most || len(applied) < versions/4 {
		t.Errorf("%d of %d versions were applied, and one came %d places behind its own; want at most %d: %s", len(applied), versions, lag, most, fmt.Sprint(applied))
	}
}
