package prune_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
)

// An interrupted detach, a detached day that was not dropped, a class that left
// the configuration, and a day that somebody reads for long.
func TestPruneFinishesWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	dead := p.Deliver(t, "dead", 20*storetest.Day, inbox.EffectDead)
	p.Deliver(t, "done", 20*storetest.Day, inbox.EffectDone)
	p.Deliver(t, "detached", 19*storetest.Day, inbox.EffectDone)
	deadThere := p.Deliver(t, "dead-there", 19*storetest.Day, inbox.EffectDead)
	name := func(ago time.Duration) string {
		return "inbox_body_default" + time.Now().Add(-ago).UTC().Format("_20060102")
	}
	// The first phase of a detach commits, the second waits for this reader: it is
	// cancelled there.
	reader, err := p.Pool.BeginTx(t.Context(), pgx.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(t.Context(), `SELECT count(*) FROM inbox_body`); err != nil {
		t.Fatal(err)
	}
	conn, err := p.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, set := range []string{`SET statement_timeout = '500ms'`, `SET lock_timeout = 0`} {
		if _, err := conn.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), "ALTER TABLE inbox_body_default DETACH PARTITION "+name(20*storetest.Day)+" CONCURRENTLY"); err == nil {
		t.Fatal("the detach did not wait for the reader")
	}
	if n := p.Count(t, `SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhdetachpending AND c.relnamespace = current_schema()::regnamespace`); n != 1 {
		t.Fatalf("%d detaches are pending, want 1", n)
	}
	_ = reader.Rollback(context.WithoutCancel(t.Context()))
	p.Exec(t, "ALTER TABLE inbox_body_default DETACH PARTITION "+name(19*storetest.Day))
	var dropped []string
	inboxtest.Until(t, "a pass that is complete", func() bool {
		report, err := p.Pruner(t).Run(t.Context(), prune.Run{Anew: true})
		dropped = append(dropped, report.Partitions...)
		return err == nil && report.Complete
	})
	if !slices.Contains(dropped, name(20*storetest.Day)) || !slices.Contains(dropped, name(19*storetest.Day)) {
		t.Errorf("%s: want both days", dropped)
	}
	for _, id := range []inbox.ID{dead, deadThere} {
		if event, effect, body := p.Has(t, id); !event || !effect || !body {
			t.Errorf("the dead one's event %t, effect %t, body %t: all have to stay", event, effect, body)
		}
	}
	// Kept bodies go in their turn.
	p.Exec(t, `UPDATE effect SET state = 'skipped', finished_at = now() WHERE state = 'dead'`)
	if report := p.Prune(t); report.Rows["inbox_body"] != 2 {
		t.Errorf("%d kept bodies went, want 2", report.Rows["inbox_body"])
	}
}

// What becomes needed between the look at a day and its being taken off is seen by the
// second look, in the same pass.
func TestPruneLooksAgain(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	id := p.Deliver(t, "old", 20*storetest.Day, inbox.EffectDone)
	partition := "inbox_body_default" + time.Now().Add(-20*storetest.Day).UTC().Format("_20060102")
	needed := false
	pruner, err := prune.New(prune.Config{Pool: p.Pool, Rate: -1, Progress: func(g prune.Progress) {
		if g.Step == partition && g.Done == 0 && !needed { // looked through, and about to be taken off
			p.Settle(t, id, inbox.EffectDead, 20*storetest.Day)
			needed = true
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	report, err := pruner.Run(t.Context(), prune.Run{})
	if err != nil || !needed || !slices.Contains(report.Partitions, partition) {
		t.Fatalf("%+v, %v; became needed: %t", report, err, needed)
	}
	if _, _, body := p.Has(t, id); !body {
		t.Error("the body went, and is needed")
	}
}

// A day of more events than a pass can look through goes all the same, and what is needed
// of it stays: also what became needed behind the first look.
func TestPruneGoesOnInALargeDay(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	first := p.Deliver(t, "first", 20*storetest.Day, inbox.EffectDone)
	p.Deliver(t, "last", 20*storetest.Day, inbox.EffectDead)
	const many = 6000
	p.Exec(t, `INSERT INTO inbox_event
		SELECT (jsonb_populate_record(e, jsonb_build_object('event_id', 'many-' || n, 'id',
			left(e.id::text, 15) || lpad(to_hex(n / 4096), 3, '0') || '-8' || lpad(to_hex(n % 4096), 3, '0') || '-' || right(e.id::text, 12)))).*
		FROM inbox_event e, generate_series(1, $2::int) n WHERE e.id = $1 ON CONFLICT DO NOTHING`, first, many)
	if n := p.Count(t, `SELECT count(*) FROM inbox_event`); n < many {
		t.Fatalf("%d events, want %d and two", n, many)
	}
	var calls atomic.Int64
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: p.Pool, Enqueuer: storetest.Queue(), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	// Each look at the clock takes a tenth of a second: few batches to a step's share.
	pruner, err := prune.New(prune.Config{
		Pool: p.Pool, Effects: effects, Rate: -1, Budget: 4 * time.Second,
		Now: func() time.Time { return time.Unix(0, calls.Add(int64(100*time.Millisecond))) },
	})
	if err != nil {
		t.Fatal(err)
	}
	partition := "inbox_body_default" + time.Now().Add(-20*storetest.Day).UTC().Format("_20060102")
	passes, needed := 0, false
	for ; passes < 60; passes++ {
		report, err := pruner.Run(t.Context(), prune.Run{})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(report.Partitions, partition) {
			break
		}
		attached := p.Count(t, `SELECT count(*) FROM pg_inherits WHERE inhrelid = to_regclass($1)`, partition) == 1
		behind := p.Count(t, `SELECT count(*) FROM prune_walk WHERE name = $1 AND position::uuid > (SELECT id FROM inbox_event WHERE event_id = 'many-1')`, partition+" attached") == 1
		if !needed && attached && behind {
			p.Exec(t, `UPDATE inbox_event SET admission = 'unusable' WHERE event_id = 'many-1'`)
			needed = true
		}
	}
	if !needed || passes == 60 {
		t.Fatalf("the storetest.Day went in pass %d, the first look was behind what became needed: %t", passes+1, needed)
	}
	const kept = `SELECT count(*) FROM inbox_body b JOIN inbox_event e ON e.body_id = b.id AND e.class = b.class WHERE e.event_id IN ('many-1', 'last')`
	if n := p.Count(t, kept); n != 2 {
		t.Errorf("the bodies of %d events are there, want 2, which are needed", n)
	}
	if n := p.Count(t, `SELECT count(*) FROM prune_walk WHERE name LIKE $1`, partition+"%"); n != 0 {
		t.Errorf("%d looks are remembered of a storetest.Day that is gone", n)
	}
}

func TestPruneFollowsClasses(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	p.Register(t, prune.ClassRow{Name: "brief", Horizons: prune.Horizons{Body: storetest.Day, Tombstone: 2 * storetest.Day, Effects: storetest.Day, Refusals: storetest.Day, Audit: storetest.Day}})
	p.Source.Class = "brief"
	old := p.Deliver(t, "old", 5*storetest.Day, inbox.EffectDone) // its partitions are made as it arrives
	p.Source.Class = "default"
	// The source keeps bodies for longer now than the class did under which it came.
	if report := p.Prune(t); report.Kept != 1 {
		t.Errorf("%d bodies were kept, want 1", report.Kept)
	}
	if _, _, body := p.Has(t, old); !body {
		t.Error("the body went, though its source keeps bodies for a week")
	}
	if n := p.Count(t, `SELECT count(*) FROM pg_class WHERE relname = $1 AND relnamespace = current_schema()::regnamespace`,
		"inbox_body_brief"+time.Now().Add(-5*storetest.Day).UTC().Format("_20060102")); n != 0 {
		t.Error("the storetest.Day of the class that is no longer used is still there")
	}
	p.Exec(t, `UPDATE retention_class SET body = interval '3 days', effects = interval '3 days'`)
	if report := p.Prune(t); report.Rows["inbox_body"] != 1 {
		t.Errorf("%d kept bodies went, want 1: its source keeps them for 3 days now", report.Rows["inbox_body"])
	}
}

// Deliveries go on while days are dropped, also ones for which no day was made.
func TestPruneWhileDelivering(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	for i := range 12 {
		p.Deliver(t, fmt.Sprint("old-", i), time.Duration(9+i)*storetest.Day, inbox.EffectDone)
	}
	p.Exec(t, "DROP TABLE inbox_body_default"+time.Now().UTC().Format("_20060102"))
	p.At.Store(time.Now().UnixNano())
	var stop atomic.Bool
	done := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			if _, err := p.Gate.Accept(t.Context(), inboxtest.Admission(p.Source, fmt.Sprint("new-", n))); err != nil {
				t.Errorf("delivery %d: %v", n, err)
			}
		}
		done <- n
	}()
	inboxtest.Until(t, "deliveries", func() bool { return p.Gate.Stats().Partitions > 0 })
	report := p.Prune(t)
	stop.Store(true)
	if n := <-done; n == 0 || len(report.Partitions) < 12 {
		t.Errorf("%d deliveries, %d days dropped", n, len(report.Partitions))
	}
}

// Somebody who holds on to a day makes prune give way, say so and succeed later;
// deliveries do not wait behind it.
func TestPruneGivesWay(t *testing.T) {
	t.Parallel()
	p := storetest.NewPast(t)
	id := p.Deliver(t, "old", 20*storetest.Day, inbox.EffectDone)
	holder, err := p.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT body FROM inbox_body`); err != nil {
		t.Fatal(err)
	}
	report, err := p.Pruner(t).Run(t.Context(), prune.Run{})
	if err != nil || report.Complete || len(report.Contended) == 0 {
		t.Errorf("%+v, %v: want a pass that gave way", report, err)
	}
	p.At.Store(time.Now().UnixNano())
	if _, err := p.Gate.Accept(t.Context(), inboxtest.Admission(p.Source, "new")); err != nil {
		t.Error(err)
	}
	_ = holder.Rollback(context.WithoutCancel(t.Context()))
	// Its end also waits for snapshots of whoever else uses the database.
	inboxtest.Until(t, "a pass that is complete", func() bool {
		report, err := p.Pruner(t).Run(t.Context(), prune.Run{Anew: true})
		return err == nil && report.Complete
	})
	if _, effect, body := p.Has(t, id); effect || body {
		t.Error("the next passes left it too")
	}
}
