package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("evt_%04d", i))
	}
	return ids
}

// wholeBatch checks that every event is there once, with its effect, its job and its
// own bytes.
func (b *bundle) wholeBatch(t *testing.T, n, bodies int) {
	t.Helper()
	var events, right, effects, stored int
	b.Scan(t, `SELECT (SELECT count(*) FROM inbox_event),
		(SELECT count(*) FROM inbox_event e JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id
		 WHERE convert_from(substr(b.body, e.body_offset + 1, e.body_length), 'UTF8') = '{"id":"' || e.event_id || '"}'),
		(SELECT count(*) FROM effect f JOIN river_job j ON j.id = f.job_id), (SELECT count(*) FROM inbox_body)`, &events, &right, &effects, &stored)
	if events != n || right != n || effects != n || stored != bodies {
		t.Errorf("%d events, %d with their bytes, %d effects with jobs, %d bodies: want %d of each and %d bodies", events, right, effects, stored, n, bodies)
	}
}

// A delivery of many events is committed in parts: another one is committed between
// them, and does not wait for its end. The test stops the clock, because all parts share the
// deadline of their delivery, and a busy machine may take longer for so many.
func TestGateBatchLetsOthersPass(t *testing.T) {
	t.Parallel()
	const events = 2000
	var b *bundle
	var runs atomic.Int64
	other, answered := make(chan error, 1), make(chan struct{})
	var committed int
	began := time.Now()
	b = setup(t, func(c *gate.Config) {
		c.GroupEvents = 32
		c.Clock = inbox.NewClock(c.Pool, func() time.Time { return began })
		acquire := gate.AcquireFrom(c.Pool)
		c.Acquire = func(ctx context.Context) (gate.Conn, error) {
			run := runs.Add(1)
			if run > 6 { // the other delivery must have been committed by now
				select {
				case <-answered:
				case <-ctx.Done():
				}
			}
			if run == 3 { // in the middle of the batch another delivery comes
				go func() {
					_, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, "other"))
					err = errors.Join(err, b.Pool.QueryRow(t.Context(), `SELECT count(*) FROM inbox_event WHERE event_id LIKE 'evt%'`).Scan(&committed))
					close(answered)
					other <- err
				}()
				inboxtest.Until(t, "the other delivery to wait", func() bool { return b.Gate.Stats().QueuedEvents > 0 || len(other) > 0 })
			}
			return acquire(ctx)
		}
	})
	b.Start(t)
	receipt, err := b.Gate.Accept(t.Context(), inboxtest.Batch(b.Source, numbered(events)...))
	if err != nil || len(receipt.Items) != events {
		t.Fatalf("%d items, %v", len(receipt.Items), err)
	}
	for i, item := range receipt.Items {
		if item.Outcome != inbox.Recorded || item.ID.IsZero() {
			t.Fatalf("item %d: %+v", i, item)
		}
	}
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	if committed == 0 || committed >= events {
		t.Errorf("the other delivery was answered when %d of %d events of the batch were committed, want it in between", committed, events)
	}
	if _, err := b.Pool.Exec(t.Context(), `WITH e AS (DELETE FROM inbox_event WHERE event_id = 'other' RETURNING id, body_id),
		f AS (DELETE FROM effect WHERE event_id IN (SELECT id FROM e)) DELETE FROM inbox_body WHERE id IN (SELECT body_id FROM e)`); err != nil {
		t.Fatal(err)
	}
	b.wholeBatch(t, events, 1)
}

// A batch that is cut off anywhere is not acknowledged. What was committed of it is
// whole, and the sender's retry completes it.
func TestGateBatchIsResumed(t *testing.T) {
	t.Parallel()
	const events = 24
	for name, after := range map[string]bool{"before the call": false, "after the call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, last := 1, false; !last; n++ {
				fault := &inboxtest.Fault{N: n, After: after, Onwards: true}
				b := setup(t, func(c *gate.Config) {
					c.GroupEvents, c.Acquire = 16, fault.Acquire(c.Pool) // parts of 8
				})
				b.Start(t)
				batch := func() *inbox.Admission { return inboxtest.Batch(b.Source, numbered(events)...) }
				_, err := b.Gate.Accept(t.Context(), batch())
				last = !fault.Struck()
				if (err == nil) != last {
					t.Fatalf("cut at call %d: %v", n, err)
				}
				var recorded, bare int
				b.Scan(t, `SELECT (SELECT count(*) FROM inbox_event), (SELECT count(*) FROM inbox_event e WHERE NOT EXISTS
					(SELECT FROM inbox_body b WHERE b.class = e.class AND b.id = e.body_id) OR NOT EXISTS (SELECT FROM effect f WHERE f.event_id = e.id))`, &recorded, &bare)
				if bare != 0 || recorded%8 != 0 {
					t.Fatalf("cut at call %d: %d events, %d of them without body or effect", n, recorded, bare)
				}
				again := setup(t, func(c *gate.Config) { c.GroupEvents, c.Pool, c.Clock = 16, b.GatePool, inboxtest.Clock(t, b.Pool) })
				again.Start(t)
				receipt, err := again.Gate.Accept(t.Context(), batch())
				if err != nil {
					t.Fatalf("the retry after a cut at call %d: %v", n, err)
				}
				known := 0
				for _, item := range receipt.Items {
					if item.Outcome == inbox.Duplicate {
						known++
					}
				}
				if known != recorded {
					t.Fatalf("the retry after a cut at call %d found %d duplicates of %d events", n, known, recorded)
				}
				bodies := 1
				if recorded > 0 && recorded < events {
					bodies = 2
				}
				b.wholeBatch(t, events, bodies)
				if t.Failed() {
					t.Fatalf("cut at call %d", n)
				}
			}
		})
	}
}
