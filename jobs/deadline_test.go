package jobs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// late makes every event one that was received an hour ago.
const late = `UPDATE inbox_event SET received_at = now() - interval '1 hour'`

// The retry policy's deadline stops attempts from beginning, the first one too: an
// effect that comes to its turn later is dead and spends no attempt.
func TestNoAttemptBeginsAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string // what is different about the effect
		order  sequence.Mode
		state  inbox.EffectState
		reason reasons.Reason
		calls  int64
	}{
		"never attempted":            {late, "", inbox.EffectDead, reasons.Deadline, 0},
		"attempted before":           {late + `; UPDATE effect SET attempts = 2, state = 'retry'`, "", inbox.EffectDead, reasons.Deadline, 0},
		"an attempt may have worked": {late + `; UPDATE effect SET attempts = 2, state = 'retry', unknown_since = now() - interval '59 min'`, "", inbox.EffectDead, reasons.Deadline, 0},
		"given fresh attempts since": {late + `; UPDATE effect SET rearmed_at = now()`, "", inbox.EffectDone, "", 1},
		"received just now":          {``, "", inbox.EffectDone, "", 1},
		"in an order":                {late, sequence.Arrival, inbox.EffectDead, reasons.Deadline, 0},
	} {
		for _, route := range []string{once, repeatable, within} {
			t.Run(name+"/"+route, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.retry.Deadline = 10 * time.Minute
				if c.order != "" {
					b.order = map[string]sequence.Policy{route: {Mode: c.order}}
				}
				id := b.admit(route, 1)[0]
				if c.order != "" {
					b.exec(`UPDATE effect SET sequence_key_hash = sha256('k'), sequence_number = 1`)
				}
				if c.before != "" {
					b.statements(c.before)
				}
				s := &sink{idempotent: route == repeatable}
				b.client(jobs.Config{Senders: senders(s), Transactionals: map[string]effect.Transactional{
					within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { s.calls.Add(1); return nil }),
				}})
				b.eventuallyState(id, c.state)
				if r := b.row(id); r.Reason != string(c.reason) || s.calls.Load() != c.calls {
					t.Errorf("reason %q after %d calls, want %q after %d", r.Reason, s.calls.Load(), c.reason, c.calls)
				}
				if n := len(b.outcomes(id)); n != int(c.calls) {
					t.Errorf("%d attempts recorded, want %d", n, c.calls)
				}
			})
		}
	}
}

// statements runs several statements.
func (b *bundle) statements(sql string) {
	b.tb.Helper()
	if _, err := b.pool.Exec(b.tb.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.tb.Fatal(err)
	}
}

// What a full target, an open breaker or a rate has parked is dead once its deadline
// has passed, while the target is as it was; nothing of it is sent afterwards.
func TestWhatIsParkedIsDeadAfterItsDeadline(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]jobs.Target{
		"concurrency": {Concurrency: 1},
		"breaker":     {Failures: 1, Open: time.Hour},
		"rate":        {Rate: 1, Per: time.Hour},
	} {
		for _, route := range []string{once, repeatable, within} {
			t.Run(name+"/"+route, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.lease = 2 * time.Minute
				b.retry = inbox.RetryPolicy{Attempts: 100, Base: time.Hour, Deadline: time.Hour}
				first := b.admit(route, 1)[0]
				var calls atomic.Int64
				release := make(chan struct{})
				defer close(release)
				act := func(ctx context.Context) effect.Result {
					calls.Add(1)
					if name == "concurrency" {
						select {
						case <-release:
						case <-ctx.Done():
						}
					}
					if name == "breaker" {
						return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect}
					}
					return effect.Result{Outcome: effect.Done}
				}
				b.client(jobs.Config{
					Senders: map[string]effect.Sender{route: &sink{
						idempotent: route == repeatable, answer: func(ctx context.Context, _ *effect.Call) effect.Result { return act(ctx) },
					}},
					Transactionals: map[string]effect.Transactional{within: transactional(act)},
					Routes:         b.changed(func(r *jobs.Route) { r.Timeout = time.Minute }),
					Targets:        map[string]jobs.Target{route: target},
				})
				b.eventually("the first attempt", func() bool { return calls.Load() == 1 })
				if name != "concurrency" {
					b.eventually("its end", func() bool { return b.row(first).State != string(inbox.EffectClaimed) && len(b.outcomes(first)) == 1 })
				}
				// A second one is parked at once, since nothing else is allowed to begin.
				second := b.admit(route, 1)[0]
				b.eventually("the second one to be put off", func() bool {
					return b.count(`SELECT count(*) FROM effect e JOIN inbox_event v ON v.id = e.event_id
						WHERE e.id = $1 AND e.state = 'pending' AND e.next_at > v.received_at + interval '15 ms'`, second) == 1
				})
				b.exec(`UPDATE inbox_event SET received_at = now() - interval '2 hours' WHERE id = $1`, second)
				b.exec(`UPDATE effect SET next_at = now() WHERE id = $1 AND state = 'pending'`, second)
				// What watches for overdue effects may have woken it already.
				b.eventually("its wake-up", func() bool {
					return b.row(second).State == string(inbox.EffectDead) || b.count(`WITH due AS (UPDATE river_job SET state = 'available', scheduled_at = now()
						WHERE state IN ('scheduled', 'available') AND args::text LIKE '%' || $1::text || '%' RETURNING id) SELECT count(*) FROM due`, second.String()) == 1
				})
				b.eventuallyState(second, inbox.EffectDead)
				if r := b.row(second); r.Reason != string(reasons.Deadline) || calls.Load() != 1 {
					t.Errorf("reason %q, %d attempts at the target; want deadline_passed, and one", r.Reason, calls.Load())
				}
			})
		}
	}
}

// transactional is a kind inside the database that touches nothing.
type transactional func(ctx context.Context) effect.Result

func (f transactional) Act(ctx context.Context, _ pgx.Tx, _ *effect.Call) effect.Result {
	return f(ctx)
}

// A deadline that passes while the request is being prepared stops it too: what is
// asked is the moment before the first byte.
func TestADeadlineThatPassesBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	for _, route := range []string{once, repeatable} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.lease = 10 * time.Minute
			b.retry.Deadline = time.Minute
			id := b.admit(route, 1)[0]
			var ahead atomic.Int64
			s := &sink{idempotent: route == repeatable, render: func(*effect.Call) ([]byte, error) {
				ahead.Store(int64(2 * time.Minute))
				return []byte("rendered"), nil
			}}
			b.client(jobs.Config{Senders: senders(s), Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
			b.eventuallyState(id, inbox.EffectDead)
			if r := b.row(id); r.Reason != string(reasons.Deadline) || s.calls.Load() != 0 || r.Attempts != 0 {
				t.Errorf("%+v after %d calls", r, s.calls.Load())
			}
		})
	}
}

// An effect is woken no later than at its deadline, however long its target asks it
// to wait: it is dead when it says so, and not an hour later.
func TestAParkedEffectIsWokenAtItsDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.retry = inbox.RetryPolicy{Attempts: 100, Base: time.Hour, Deadline: 20 * time.Second}
	b.admit(once, 1)
	s := &sink{answer: func(context.Context, *effect.Call) effect.Result {
		return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect}
	}}
	client := b.client(jobs.Config{Senders: senders(s), Targets: map[string]jobs.Target{once: {Failures: 1, Open: time.Hour}}})
	b.eventually("the breaker to open", func() bool { return client.Breakers()[once] == jobs.BreakerOpen })
	second := b.admit(once, 1)[0]
	b.eventually("the second one to be parked", func() bool { return b.row(second).Reason == string(reasons.Breaker) })
	if n := b.count(`SELECT count(*) FROM effect e JOIN inbox_event v ON v.id = e.event_id
		WHERE e.id = $1 AND e.next_at BETWEEN v.received_at + interval '10 s' AND v.received_at + interval '30 s'`, second); n != 1 {
		t.Error("it is not woken at its deadline")
	}
}
