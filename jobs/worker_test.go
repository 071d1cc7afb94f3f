package jobs_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

func TestEffectsAreCarriedOutOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE applied (event text)`)
	out, single := &sink{idempotent: true}, &sink{}
	ids := b.admit(repeatable, 300)
	onceIDs := b.admit(once, 50)
	inside := b.admit(within, 50)
	b.client(jobs.Config{
		Senders: map[string]effect.Sender{repeatable: out, once: single},
		Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, e effect.Event) error {
			_, err := tx.Exec(ctx, `INSERT INTO applied VALUES ($1)`, e.ID)
			return err
		})},
	})
	b.eventually("all done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 400 })
	for _, id := range ids {
		if n := out.got(id); n != 1 {
			t.Errorf("effect %s was sent %d times", id, n)
		}
	}
	for _, id := range onceIDs {
		if n := single.got(id); n != 1 {
			t.Errorf("effect %s was sent %d times", id, n)
		}
	}
	if n := b.count(`SELECT count(*) FROM (SELECT event FROM applied GROUP BY event HAVING count(*) = 1) a`); n != len(inside) {
		t.Errorf("%d events applied once, want %d", n, len(inside))
	}
	if got := out.bodies["key-"+ids[0].String()]; got != `{"paid":1}` {
		t.Errorf("body %q, want the event's own bytes", got)
	}
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE outcome = 'done' AND trigger = 'initial' AND attempt = 1`); n != 400 {
		t.Errorf("%d attempts recorded, want 400", n)
	}
	b.eventually("all jobs completed", func() bool { return b.count(`SELECT count(*) FROM river_job WHERE state <> 'completed'`) == 0 })
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route    string
		results  []effect.Result // the last one repeats
		state    inbox.EffectState
		reason   reasons.Reason
		outcomes []string
	}{
		"retried until done": {
			repeatable, []effect.Result{{Outcome: effect.Retry, Reason: "connect"}, {Outcome: effect.Unknown, Reason: "timeout"}, {Outcome: effect.Done}},
			inbox.EffectDone, "", []string{"retry", "retry", "done"},
		},
		"exhausted": {
			repeatable, []effect.Result{{Outcome: effect.Retry, Reason: "status_503"}},
			inbox.EffectDead, reasons.Exhausted, []string{"retry", "retry", "retry", "retry", "dead"},
		},
		"dead at once":  {repeatable, []effect.Result{{Outcome: effect.Dead, Reason: "status_4xx"}}, inbox.EffectDead, reasons.Status4xx, []string{"dead"}},
		"unknown, once": {once, []effect.Result{{Outcome: effect.Unknown, Reason: "timeout"}}, inbox.EffectIndeterminate, reasons.Timeout, []string{"indeterminate"}},
		"not sent, once": {
			once, []effect.Result{{Outcome: effect.Retry, Reason: "connect"}, {Outcome: effect.Done}},
			inbox.EffectDone, "", []string{"retry", "done"},
		},
		"an outcome that is none": {once, []effect.Result{{Outcome: "perhaps"}}, inbox.EffectIndeterminate, reasons.Other, []string{"indeterminate"}},
		"a reason that is none":   {once, []effect.Result{{Outcome: effect.Dead, Reason: "evil\x00"}}, inbox.EffectDead, reasons.Other, []string{"dead"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(c.route, 1)[0]
			s := &sink{idempotent: c.route == repeatable}
			s.answer = func(context.Context, *effect.Call) effect.Result {
				return c.results[min(int(s.calls.Load()), len(c.results))-1]
			}
			b.client(jobs.Config{Senders: senders(s)})
			b.eventuallyState(id, c.state)
			if got := b.row(id).Reason; got != string(c.reason) {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
			if got := b.outcomes(id); !slices.Equal(got, c.outcomes) {
				t.Errorf("attempts %v, want %v", got, c.outcomes)
			}
		})
	}
}

func TestPanicsEndTheAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	out, in := b.admit(once, 1)[0], b.admit(within, 1)[0]
	b.client(jobs.Config{
		Senders: senders(&sink{answer: func(context.Context, *effect.Call) effect.Result { panic("secret") }}),
		Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error {
			panic("secret")
		})},
	})
	b.eventuallyState(out, inbox.EffectIndeterminate)
	b.eventuallyState(in, inbox.EffectDead)
	if got := b.outcomes(in); len(got) != 5 {
		t.Errorf("attempts %v, want 5", got)
	}
}

// What a target says must never reach River: a NUL byte there freezes the
// completer of the whole process.
func TestPoisonInARemoteReplyFreezesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 60)
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Dead, Reason: "status_4xx\x00", Code: "4\x00", Excerpt: "\x00\xff\xed\xa0\x80" + string(make([]byte, 5000))}
	}}
	b.client(jobs.Config{Senders: senders(s)})
	b.eventually("all dead", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'dead'`) == len(ids) })
	b.eventually("all jobs completed", func() bool { return b.count(`SELECT count(*) FROM river_job WHERE state <> 'completed'`) == 0 })
}

func TestWhatIsRenderedIsStoredBeforeTheFirstSend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	var renders atomic.Int64
	var sent []string
	s := &sink{idempotent: true}
	s.render = func(*effect.Call) ([]byte, error) {
		return []byte{'r', byte('0' + renders.Add(1))}, nil
	}
	s.answer = func(_ context.Context, call *effect.Call) effect.Result {
		if stored := string(b.row(id).Rendered); stored != string(call.Rendered) {
			t.Errorf("sending %q while %q is stored", call.Rendered, stored)
		}
		sent = append(sent, string(call.Rendered))
		if len(sent) < 3 {
			return effect.Result{Outcome: effect.Unknown, Reason: "timeout"}
		}
		return effect.Result{Outcome: effect.Done}
	}
	b.client(jobs.Config{Senders: senders(s)})
	b.eventuallyState(id, inbox.EffectDone)
	if !slices.Equal(sent, []string{"r1", "r1", "r1"}) {
		t.Errorf("sent %v, want the same bytes in every attempt", sent)
	}
}

func TestAnUnknownRouteIsPostponed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known := b.config(jobs.Config{})
	b.exec(`UPDATE route SET name = name`) // the row is there, the process does not know it
	id := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET route_id = 12345 WHERE id = $1`, id)
	b.client(known)
	// The pause grows from a second; the second one shows that the job came back.
	var put []string
	b.eventually("the effect to be put off twice", func() bool {
		next := b.text(`SELECT next_at::text FROM effect WHERE reason = 'route_unknown' UNION ALL SELECT '' LIMIT 1`)
		if next != "" && !slices.Contains(put, next) {
			put = append(put, next)
		}
		return len(put) == 2
	})
	if r := b.row(id); r.State != "pending" || r.Attempts != 0 {
		t.Errorf("%+v, want pending without an attempt", r)
	}
	if n := b.count(`SELECT count(*) FROM river_job WHERE finalized_at IS NULL`); n != 1 {
		t.Errorf("%d jobs are to come, want the one that was snoozed", n)
	}
}

func TestASaturatedTargetSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 2)
	free := make(chan struct{})
	s := &sink{idempotent: true, answer: func(ctx context.Context, _ *effect.Call) effect.Result {
		<-free
		return effect.Result{Outcome: effect.Done}
	}}
	b.client(jobs.Config{Senders: senders(s), Targets: map[string]jobs.Target{repeatable: {Concurrency: 1}}})
	b.eventually("one put off", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state = 'pending' AND attempts = 0 AND reason = 'target_saturated'`) == 1
	})
	close(free)
	b.eventually("both done", func() bool { return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 2 })
	if n := len(b.outcomes(ids[0])) + len(b.outcomes(ids[1])); n != 2 {
		t.Errorf("%d attempts recorded, want 2", n)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.admit(repeatable, 1)[0]
	s := &sink{idempotent: true, answer: func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Retry, Reason: "status_429", RetryAfter: time.Hour}
	}}
	b.client(jobs.Config{Senders: senders(s)})
	b.eventuallyState(id, inbox.EffectRetry)
	if n := b.count(`SELECT count(*) FROM effect WHERE next_at BETWEEN now() + interval '59 min' AND now() + interval '61 min'`); n != 1 {
		t.Error("the next attempt is not due in an hour")
	}
	b.eventually("the job sleeps as long", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE state = 'scheduled' AND scheduled_at > now() + interval '59 min'`) == 1
	})
}

func TestAStopDuringASend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	again, never := b.admit(repeatable, 1)[0], b.admit(once, 1)[0]
	inside := b.admit(within, 1)[0]
	started := make(chan struct{}, 3)
	wait := func(ctx context.Context, _ *effect.Call) effect.Result {
		started <- struct{}{}
		<-ctx.Done()
		return effect.Result{Outcome: effect.Unknown, Reason: "timeout"}
	}
	c := b.client(jobs.Config{
		StopTimeout: 50 * time.Millisecond,
		Senders:     map[string]effect.Sender{repeatable: &sink{idempotent: true, answer: wait}, once: &sink{answer: wait}},
		Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
			started <- struct{}{}
			_, err := tx.Exec(ctx, `SELECT pg_sleep(20)`)
			return err
		})},
	})
	for range 3 {
		<-started
	}
	b.stop(c)
	if r := b.row(again); r.State != "retry" || r.Reason != "stopped" {
		t.Errorf("repeatable: %+v, want retry, stopped", r)
	}
	if r := b.row(never); r.State != "indeterminate" || r.Reason != "stopped" {
		t.Errorf("once: %+v, want indeterminate, stopped", r)
	}
	if r := b.row(inside); r.State != "pending" || r.Attempts != 0 {
		t.Errorf("within: %+v, want pending, nothing spent", r)
	}
	if n := b.count(`SELECT count(*) FROM river_job WHERE state = 'running'`); n != 0 {
		t.Errorf("%d jobs still say they run", n)
	}
	if n := b.count(`SELECT count(*) FROM river_job WHERE state = 'available'`); n != 2 {
		t.Errorf("%d jobs are ready for the next node, want 2", n)
	}
}

// Finish lets attempts take longer than a stop would, until somebody is in a hurry.
func TestFinishCancelsNoAttemptUntilItHurries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.admit(once, 1)[0], b.admit(once, 1)[0]
	started, release := make(chan struct{}, 2), make(chan struct{}, 1)
	var hurried atomic.Bool
	c := b.client(jobs.Config{
		StopTimeout: time.Millisecond,
		Senders: map[string]effect.Sender{once: &sink{answer: func(ctx context.Context, _ *effect.Call) effect.Result {
			started <- struct{}{}
			select {
			case <-release:
				return effect.Result{Outcome: effect.Done}
			case <-ctx.Done():
				if !hurried.Load() {
					t.Error("an attempt was cancelled before the hurry")
				}
				return effect.Result{Outcome: effect.Unknown, Reason: "timeout"}
			}
		}}},
	})
	<-started
	<-started
	hurry, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- c.Finish(context.WithoutCancel(t.Context()), hurry) }()
	states := func(state string) bool {
		return b.row(first).State == state || b.row(second).State == state
	}
	release <- struct{}{}
	b.eventually("an attempt to end by itself", func() bool { return states("done") })
	hurried.Store(true)
	close(hurry)
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !states("indeterminate") {
		t.Error("the hurry did not cancel the attempt that was left")
	}
}

func TestHandlers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler  func(n int, ctx context.Context, tx pgx.Tx) error
		state    inbox.EffectState
		reason   reasons.Reason
		attempts int
		rows     int
	}{
		"a failure leaves nothing": {func(n int, ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO applied VALUES ('x')`); err != nil {
				return err
			}
			if n < 3 {
				return errors.New("not yet")
			}
			return nil
		}, inbox.EffectDone, "", 3, 1},
		"permanent": {func(int, context.Context, pgx.Tx) error {
			return effect.Permanent(errors.New("no such order"))
		}, inbox.EffectDead, reasons.Handler, 1, 0},
		"an error of the database": {func(_ int, ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		}, inbox.EffectDead, reasons.SQL, 1, 0},
		"a serialization failure": {func(n int, ctx context.Context, tx pgx.Tx) error {
			if n > 1 {
				return nil
			}
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40001'; END $$`)
			return err
		}, inbox.EffectDone, "", 2, 0},
		"a constraint checked at commit": {func(_ int, ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO child VALUES (7)`)
			return err
		}, inbox.EffectDead, reasons.SQL, 1, 0},
		"a connection that dies": {func(n int, ctx context.Context, tx pgx.Tx) error {
			if n > 1 {
				return nil
			}
			// The order may be answered before it is obeyed; the next statement is not.
			_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
			if err == nil {
				_, err = tx.Exec(ctx, `SELECT pg_sleep(60)`)
			}
			return err
		}, inbox.EffectDone, "", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec(`CREATE TABLE applied (event text)`)
			b.exec(`CREATE TABLE parent (id int PRIMARY KEY)`)
			b.exec(`CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
			id := b.admit(within, 1)[0]
			var calls atomic.Int64
			b.client(jobs.Config{Transactionals: map[string]effect.Transactional{
				within: effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, _ effect.Event) error {
					return c.handler(int(calls.Add(1)), ctx, tx)
				}),
			}})
			b.eventuallyState(id, c.state)
			r := b.row(id)
			if r.Reason != string(c.reason) || r.Attempts != c.attempts || len(b.outcomes(id)) != c.attempts {
				t.Errorf("%+v, attempts %v, want reason %q after %d attempts", r, b.outcomes(id), c.reason, c.attempts)
			}
			if n := b.count(`SELECT count(*) FROM applied`); n != c.rows {
				t.Errorf("%d rows applied, want %d", n, c.rows)
			}
		})
	}
}

func TestInsideTheDatabaseExactlyOnceUnderConcurrentWakeUps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE applied (event text)`)
	ids := b.admit(within, 40)
	for range 4 { // five jobs for each effect
		b.exec(`INSERT INTO river_job (args, kind, max_attempts) SELECT args, kind, max_attempts FROM river_job WHERE id IN (SELECT job_id FROM effect)`)
	}
	handler := effect.HandlerFunc(func(ctx context.Context, tx pgx.Tx, e effect.Event) error {
		_, err := tx.Exec(ctx, `INSERT INTO applied SELECT $1 FROM pg_sleep(0.005)`, e.ID)
		return err
	})
	for _, node := range []string{"node-1", "node-2"} {
		b.client(jobs.Config{Store: b.store(node), Transactionals: map[string]effect.Transactional{within: handler}})
	}
	b.eventually("all done, all jobs completed", func() bool {
		return b.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == len(ids) &&
			b.count(`SELECT count(*) FROM river_job WHERE state <> 'completed'`) == 0
	})
	if n, m := b.count(`SELECT count(*) FROM applied`), b.count(`SELECT count(DISTINCT event) FROM applied`); n != len(ids) || m != len(ids) {
		t.Errorf("%d rows for %d events, want %d", n, m, len(ids))
	}
}
