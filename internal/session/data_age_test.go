package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
)

// TestDataAge measures a standby that keeps up, whose replay is paused, that is cut off and that is promoted. The clock is the test's: no
// time passes but what the test lets pass, so that every age is known.
func TestDataAge(t *testing.T) {
	t.Parallel()
	p, next := newPair(t)
	ctx := t.Context()
	lists, err := session.OpenPool(ctx, next.DSN(), "public", session.PoolList, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lists.Close)
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	pass := func(d time.Duration) { passed.Add(int64(d)) }
	age := session.NewDataAge(p.pool, lists, now)
	becomes := func(what string, want time.Duration) {
		t.Helper()
		var got session.Freshness
		if err := rig.Until(ctx, 30*time.Second, what, func() (bool, error) {
			got = age.Measure(ctx)
			return got.Err == nil && got.Standby && got.Age(now()) == want, nil
		}); err != nil {
			t.Fatalf("%s: the age is %s, %v, want %s", what, got.Age(now()), got.Err, want)
		}
	}

	becomes("a standby that keeps up", 0)
	pass(time.Hour)
	becomes("the standby of an idle primary", 0)

	exec := func(sql string) {
		t.Helper()
		if _, err := p.standby.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("SELECT pg_wal_replay_pause()")
	p.until(p.standby, "SELECT pg_get_wal_replay_pause_state() = 'paused'")
	age.Measure(ctx)
	pass(time.Second)
	p.commit()
	becomes("a standby that lacks a commit of now", time.Second)
	pass(time.Minute)
	becomes("a standby whose replay is paused", time.Minute+time.Second)
	exec("SELECT pg_wal_replay_resume()")
	becomes("a standby whose replay is resumed", 0)

	// By its own functions this standby has replayed all that it has received.
	p.receive(false)
	age.Measure(ctx)
	p.commit()
	pass(time.Minute)
	p.commit()
	becomes("a standby that is cut off", time.Minute)
	fresh := session.NewDataAge(p.pool, lists, now).Measure(ctx)
	if fresh.Err != nil || !fresh.Standby || fresh.AsOf.IsZero() || fresh.Age(now()) <= 0 {
		t.Errorf("a process that has just started calls data that lacks a commit %s old, %v", fresh.Age(now()), fresh.Err)
	}
	p.receive(true)
	becomes("a standby that is connected again", 0)

	if err := next.Freeze(); err != nil {
		t.Fatal(err)
	}
	pass(time.Minute)
	timed, cancel := context.WithTimeout(ctx, time.Second)
	away := age.Measure(timed)
	cancel()
	if away.Err == nil || away.Age(now()) != time.Minute {
		t.Errorf("of a standby that is away: %v, age %s, want an error and a minute", away.Err, away.Age(now()))
	}
	if err := next.Thaw(); err != nil {
		t.Fatal(err)
	}
	becomes("a standby that is back", 0)

	if err := next.Promote(ctx); err != nil {
		t.Fatal(err)
	}
	if got := age.Measure(ctx); got.Err != nil || got.Standby || got.Age(now()) != 0 {
		t.Errorf("of a standby that was promoted: %+v, want no age", got)
	}
}
