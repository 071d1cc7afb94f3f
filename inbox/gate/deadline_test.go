package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// stranger is a transaction of somebody else that stays open until it is let go.
func (b *bundle) stranger(t *testing.T, sql string, args ...any) (tx pgx.Tx, letGo func()) {
	t.Helper()
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	letGo = sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	t.Cleanup(letGo)
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	return tx, letGo
}

const takeKey = `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class,
	body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
	SELECT gen_random_uuid(), $1, 'held_' || n, '', sha256(''), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 0, false, false
	FROM generate_series(1, $2::int) n`

func deliveries(source *inbox.Source, name string, n int) (out []*inbox.Admission) {
	for i := range n {
		out = append(out, inboxtest.Admission(source, fmt.Sprintf("%s_%d", name, i+1)))
	}
	return out
}

// What holds a table holds every delivery of a group: they are answered at once, at
// the deadline of the first, and not one after the other.
func TestGateDeadlineHoldsUnderATableLock(t *testing.T) {
	t.Parallel()
	const deadline = 2 * time.Second
	b := setup(t, func(c *gate.Config) { c.Deadline = deadline })
	b.stranger(t, `LOCK TABLE inbox_event IN SHARE MODE`) // as CREATE INDEX does
	began := time.Now()
	for i, a := range b.Together(t, deliveries(b.Source, "evt", 40)...) {
		if !errors.Is(a.Err, gate.ErrUnavailable) {
			t.Errorf("delivery %d: %v, want ErrUnavailable", i, a.Err)
		}
	}
	if took := time.Since(began); took > 5*deadline || took < deadline/2 {
		t.Errorf("all were answered after %s, with a deadline of %s", took, deadline)
	}
	if s := b.Gate.Stats(); s.Splits != 0 {
		t.Errorf("the group was split %d times over what all of it shares", s.Splits)
	}
}

// A group waits for a table within its deadline: who builds an index for a few
// seconds costs nobody their delivery.
func TestGateWaitsForATable(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := setup(t, func(c *gate.Config) {
		c.Deadline = time.Minute
		acquire := gate.AcquireFrom(c.Pool)
		c.Acquire = func(ctx context.Context) (gate.Conn, error) {
			runs.Add(1)
			return acquire(ctx)
		}
	})
	_, letGo := b.stranger(t, `LOCK TABLE inbox_event IN SHARE MODE`)
	go func() {
		inboxtest.Until(t, "a second run", func() bool { return runs.Load() > 1 })
		letGo()
	}()
	for i, a := range b.Together(t, deliveries(b.Source, "evt", 20)...) {
		if a.Err != nil || a.Receipt.Items[0].Outcome != inbox.Recorded {
			t.Errorf("delivery %d: %+v, %v, want recorded", i, a.Receipt, a.Err)
		}
	}
	if s := b.Gate.Stats(); s.Splits != 0 {
		t.Errorf("the group was split %d times", s.Splits)
	}
}

// A group that is taken apart inherits the deadline: the free deliveries are recorded
// first, and once the deadline has passed no contested one waits any more. The clock is the
// test's, and passes the deadline when each delivery was tried alone.
func TestGateDeadlineHoldsAcrossASplit(t *testing.T) {
	t.Parallel()
	const deadline, held, free = time.Minute, 20, 5
	began := time.Now()
	var ahead, runs, late atomic.Int64
	b := setup(t, func(c *gate.Config) {
		c.Deadline, c.Flushers = deadline, 1
		c.Clock = inbox.NewClock(c.Pool, func() time.Time { return began.Add(time.Duration(ahead.Load())) })
		acquire := gate.AcquireFrom(c.Pool)
		c.Acquire = func(ctx context.Context) (gate.Conn, error) {
			switch run := runs.Add(1); {
			case run == 1+held+free: // the group, and then each alone: this is the last one
				ahead.Store(int64(deadline))
			case run > 1+held+free && ctx.Err() == nil:
				late.Add(1)
			}
			return acquire(ctx)
		}
	})
	b.stranger(t, takeKey, b.Source.ID, held)
	answers := b.Together(t, append(deliveries(b.Source, "held", held), deliveries(b.Source, "free", free)...)...)
	for i, a := range answers {
		if free := i >= held; free != (a.Err == nil) {
			t.Errorf("delivery %d: %v, free %t", i, a.Err, free)
		}
	}
	if n := runs.Load(); n <= 1+held+free || late.Load() != 0 {
		t.Errorf("%d runs, of which %d had time left behind the deadline: want some and none", n, late.Load())
	}
}

// A delivery that did not fit a group goes to the flusher that is free, not to the
// one whose group waits. Both flushers are kept busy until three deliveries wait, so that
// it is one flusher that takes two of them and leaves the third over.
func TestGateRestGoesToAFreeFlusher(t *testing.T) {
	t.Parallel()
	const flushers = 2
	var runs atomic.Int64
	var through [flushers + 1]chan struct{} // each lets one of the first groups through
	for i := range through {
		through[i] = make(chan struct{})
	}
	b := setup(t, func(c *gate.Config) {
		c.GroupEvents, c.Flushers, c.Deadline = 2, flushers, time.Minute
		acquire := gate.AcquireFrom(c.Pool)
		c.Acquire = func(ctx context.Context) (gate.Conn, error) {
			if run := int(runs.Add(1)); run <= len(through) {
				select {
				case <-through[run-1]:
				case <-ctx.Done():
				}
			}
			return acquire(ctx)
		}
	})
	accept := func(a *inbox.Admission) chan error {
		answer := make(chan error, 1)
		go func() {
			_, err := b.Gate.Accept(t.Context(), a)
			answer <- err
		}()
		return answer
	}
	b.Start(t)
	var answers []chan error
	for i, a := range deliveries(b.Source, "busy", flushers) {
		answers = append(answers, accept(a))
		inboxtest.Until(t, "a flusher to begin", func() bool { return int(runs.Load()) == i+1 })
	}
	for i, a := range deliveries(b.Source, "evt", 3) {
		answers = append(answers, accept(a))
		b.Queued(t, i+1)
	}
	close(through[0]) // this flusher takes the first two, and waits
	inboxtest.Until(t, "the group of two to begin", func() bool { return runs.Load() == flushers+1 })
	close(through[1]) // this one is free after its own
	left := answers[len(answers)-1]
	select {
	case err := <-left:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the delivery that did not fit waited for the group that it did not fit")
	}
	for _, answer := range answers[flushers : flushers+2] {
		if len(answer) > 0 {
			t.Error("the group that waits was answered")
		}
	}
	close(through[2])
	for _, answer := range answers[:len(answers)-1] {
		if err := <-answer; err != nil {
			t.Error(err)
		}
	}
}

// The count of deliveries is for people: a duplicate waits for no lock of a row,
// and so does nobody in its group.
func TestGateDuplicateDoesNotWaitForItsRow(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.Start(t)
	for _, id := range []string{"evt_1", "evt_2"} {
		if _, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Gate.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A gate of its own, so that both duplicates are one group.
	again := setup(t, func(c *gate.Config) { c.Pool, c.Clock, c.Flushers = b.GatePool, inboxtest.Clock(t, b.Pool), 1 })
	again.Pool, again.Source = b.Pool, b.Source
	_, letGo := again.stranger(t, `SELECT FROM inbox_event WHERE event_id = 'evt_1' FOR UPDATE`)
	for i, a := range again.Together(t, inboxtest.Admission(b.Source, "evt_1"), inboxtest.Admission(b.Source, "evt_2")) {
		if a.Err != nil || a.Receipt.Items[0].Outcome != inbox.Duplicate {
			t.Errorf("duplicate %d gave %+v, %v", i+1, a.Receipt, a.Err)
		}
	}
	if s := again.Gate.Stats(); s.Splits != 0 || s.Groups != 1 {
		t.Errorf("%d groups and %d splits, want one group that waited for nothing", s.Groups, s.Splits)
	}
	letGo()
	var held, free int
	again.Scan(t, `SELECT max(deliveries) FILTER (WHERE event_id = 'evt_1'), max(deliveries) FILTER (WHERE event_id = 'evt_2') FROM inbox_event`, &held, &free)
	if held != 1 || free != 2 {
		t.Errorf("counted %d and %d deliveries, want 1 of the row that was locked and 2 of the other", held, free)
	}
}
