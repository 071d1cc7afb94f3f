package prune_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/advisory"
)

var (
	pruneSeed = flag.Uint64("prune.seed", 1, "the seed of the first life of TestPruneCampaign")
	pruneRuns = flag.Int("prune.lives", 1, "how many lives TestPruneCampaign has")
	pruneOps  = flag.Int("prune.ops", 250, "how many steps each of them has")
)

// errNotPruned is a pass that had not the lock, or did not come to its end.
var errNotPruned = errors.New("not everything was pruned")

// pruneOnce is what the campaign runs beside everything else, again and again.
type pruneOnce func(ctx context.Context, p *storetest.Past) error

// TestPruneCampaign: over random interleavings of deliveries, redeliveries,
// replays, prunes and kills, nothing unsettled is ever removed, and a duplicate
// within the horizon is always recognised.
func TestPruneCampaign(t *testing.T) {
	t.Parallel()
	for life := range *pruneRuns {
		seed := *pruneSeed + uint64(life)
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			t.Parallel()
			campaign(t, seed, *pruneOps, func(ctx context.Context, p *storetest.Past) error {
				pruner, err := prune.New(prune.Config{Pool: p.Pool, Rate: -1})
				if err != nil {
					return err
				}
				// The server holds the lock of a connection that was cut off until it notices.
				report, err := pruner.Run(ctx, prune.Run{Anew: true})
				if err == nil && !report.Complete {
					err = errNotPruned
				}
				return err
			})
		})
	}
}

// TestPruneMuseum: the campaign fails pruners that are known to be wrong.
func TestPruneMuseum(t *testing.T) {
	t.Parallel()
	const old = `(SELECT id FROM effect WHERE state IN ('done', 'superseded', 'skipped') AND finished_at < now() - interval '14 days')`
	statement := func(sql ...string) pruneOnce {
		return func(ctx context.Context, p *storetest.Past) error {
			for _, one := range sql {
				if _, err := p.Pool.Exec(ctx, one); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		prune pruneOnce
		says  string
	}{
		"removes what it found, without looking again": {func(ctx context.Context, p *storetest.Past) error {
			rows, err := p.Pool.Query(ctx, `SELECT id FROM effect WHERE id IN `+old)
			if err != nil {
				return err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
			if err != nil {
				return err
			}
			// What a batch that is found first and removed later leaves open.
			if _, err := p.Pool.Exec(ctx, `SELECT pg_sleep(0.05)`); err != nil {
				return err
			}
			_, err = p.Pool.Exec(ctx, `DELETE FROM effect WHERE id = ANY ($1)`, ids)
			return err
		}, "was removed while it was"},
		"removes events before their effects": {statement(
			`DELETE FROM inbox_event WHERE received_at < now() - interval '30 days 1 hour'`), "has lost its event"},
		"removes the dead too": {statement(
			`DELETE FROM effect WHERE state IN ('done', 'dead') AND id < ` + `(lpad(to_hex((extract(epoch FROM now() - interval '14 days') * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid`),
			"was removed while it was dead"},
		"removes what is in a replay": {statement(
			`DELETE FROM effect WHERE state IN ('done', 'superseded', 'skipped') AND finished_at < now() - interval '14 days'`), "in an open replay"},
		"drops days without keeping what is needed": {statement(`DELETE FROM inbox_body b WHERE NOT EXISTS (
			SELECT FROM inbox_event e WHERE e.body_id = b.id AND e.received_at > now() - interval '7 days')`), "has lost its body"},
		"takes the horizon of bodies for that of keys": {statement(
			`DELETE FROM effect e WHERE state IN ('done', 'superseded', 'skipped') AND finished_at < now() - interval '14 days'
				AND NOT EXISTS (SELECT FROM replay_item i JOIN replay r ON r.id = i.replay_id WHERE i.effect_id = e.id AND r.state = 'planned')`,
			`DELETE FROM inbox_event e WHERE received_at < now() - interval '7 days' AND NOT EXISTS (SELECT FROM effect f WHERE f.event_id = e.id)`),
			"has lost its event while its effect was"},
		"counts from the wrong end": {statement(`DELETE FROM effect WHERE state = 'pending' AND next_at > now() - interval '14 days'`), "was removed while it was pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := inboxtest.Record(t, func(tb testing.TB) { campaign(tb, *pruneSeed, 600, c.prune) })
			if len(failures) == 0 {
				t.Fatal("the campaign passed a pruner that is known to be wrong")
			}
			if !strings.Contains(strings.Join(failures, "\n"), c.says) {
				t.Errorf("it failed for another reason than %q: %s", c.says, failures[0])
			}
		})
	}
}

// lived is one event of the campaign, as it must be.
type lived struct {
	key    string
	id     inbox.ID
	effect inbox.ID
	at     time.Time
	state  inbox.EffectState
	replay inbox.ID // open; zero for none

	gone   bool // the effect was pruned, rightly
	bodied bool // has needed its body ever since it came
}

func (l *lived) age() time.Duration { return time.Since(l.at) }

// removable reports whether prune may take the effect.
func (l *lived) removable() bool { return l.state.Settled() && l.replay.IsZero() }

type life struct {
	testing.TB
	*storetest.Past
	random *rand.Rand
	events []*lived
	failed bool
	killed atomic.Int64 // passes, in the middle
}

// proved reports whether the life has been pruned beside what it did, and a pass was killed.
func (l *life) proved() bool {
	return l.killed.Load() > 0 && slices.ContainsFunc(l.events, func(e *lived) bool { return e.gone })
}

func campaign(tb testing.TB, seed uint64, steps int, prune pruneOnce) {
	tb.Helper()
	p := storetest.NewPast(tb)
	p.Source.Tombstone = storetest.KeepDefault.Tombstone
	l := &life{TB: tb, Past: p, random: rand.New(rand.NewPCG(seed, 7))} // a life that can be lived again
	// No event comes into a day that is past its horizon: the old ones are there first.
	for range max(steps/5, 5) {
		l.deliver([]time.Duration{time.Hour, 8 * storetest.Day, 16 * storetest.Day, 29 * storetest.Day, 35 * storetest.Day, 45 * storetest.Day}[l.random.IntN(6)])
	}
	ctx, cancel := context.WithCancel(tb.Context())
	var wg sync.WaitGroup
	for range 2 { // two at once
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = prune(ctx, p) // killed ones fail
			}
		})
	}
	wg.Go(func() { l.kill(ctx) })
	// Steps are counted and passes take time: on a busy machine a life of so many steps is over before
	// the first pass is, and goes on until it proves something.
	whole := steps >= 200
	for step := 0; !l.failed && (step < steps || whole && !l.proved() && step < 40*steps); step++ {
		switch n := l.random.IntN(100); {
		case n < 10:
			l.deliver(time.Duration(l.random.IntN(48)) * time.Hour)
		case n < 45:
			l.redeliver()
		case n < 85:
			l.flip()
		default:
			l.replays()
		}
	}
	cancel()
	wg.Wait()
	if !l.failed {
		inboxtest.Until(tb, "a last prune", func() bool { return prune(tb.Context(), p) == nil })
		for _, e := range l.events {
			l.check(e)
		}
		if whole && !l.proved() {
			l.fail("after %d steps nothing was pruned, or no pass was killed (%d were): the life proves nothing", 40*steps, l.killed.Load())
		}
	}
}

// kill ends the connection of a pass now and then. It knows it by its lock.
func (l *life) kill(ctx context.Context) {
	ticker := time.NewTicker(30 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			tag, err := l.Pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
				WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = $1::int::oid AND objid::bigint = hashtext(current_schema())::bigint & 4294967295 AND ($2 OR random() < 0.1)`,
				advisory.Prune, l.killed.Load() == 0)
			if err == nil {
				l.killed.Add(tag.RowsAffected())
			}
		}
	}
}

func (l *life) fail(format string, args ...any) {
	l.Helper()
	l.failed = true
	l.Errorf(format, args...)
}

func (l *life) deliver(ago time.Duration) {
	e := &lived{key: fmt.Sprintf("evt_%d", len(l.events)), bodied: true}
	states := []inbox.EffectState{
		inbox.EffectPending, inbox.EffectRetry, inbox.EffectHeld, inbox.EffectDead, inbox.EffectIndeterminate, inbox.EffectDone, inbox.EffectDone,
	}
	e.state = states[l.random.IntN(len(states))]
	a := inboxtest.Admission(l.Source, e.key)
	e.at = time.Now().Add(-ago)
	a.Events[0].DatedAt = e.at
	e.id = l.Accept(l, a, ago).Items[0].ID
	if err := l.Pool.QueryRow(l.Context(), `SELECT id FROM effect WHERE event_id = $1`, e.id).Scan(&e.effect); err != nil {
		l.fail("the effect of %s was removed while it was pending: %v", e.key, err)
		return
	}
	l.Settle(l, e.id, e.state, ago)
	if e.state.Settled() {
		e.bodied = false
	}
	l.events = append(l.events, e)
}

func (l *life) any() *lived { return l.events[l.random.IntN(len(l.events))] }

// redeliver delivers a known key again, now.
func (l *life) redeliver() {
	e := l.any()
	a := inboxtest.Admission(l.Source, e.key)
	a.Events[0].DatedAt = e.at
	got := l.Accept(l, a, 0).Items[0]
	switch {
	case got.Outcome == inbox.Duplicate && (got.ID == e.id || e.gone):
	case e.age() < storetest.KeepDefault.Tombstone:
		l.fail("%s, %s old, was taken for new", e.key, e.age().Round(time.Hour))
	case !e.gone && !e.removable():
		l.fail("%s has lost its event while its effect was %s", e.key, e.state)
	case !got.BeyondRetention || got.Effects > 0:
		l.fail("%s, %s old, got effects again", e.key, e.age().Round(time.Hour))
	default:
		e.gone = true
	}
}

// flip changes the state of an effect, as a worker, a rearm or a replay would.
func (l *life) flip() {
	e := l.any()
	if e.gone {
		return
	}
	states := []inbox.EffectState{inbox.EffectPending, inbox.EffectDone, inbox.EffectDead, inbox.EffectDone, inbox.EffectHeld, inbox.EffectSkipped}
	next := states[l.random.IntN(len(states))]
	l.check(e)
	ago := time.Duration(l.random.Int64N(int64(e.age()) + 1))
	var state inbox.EffectState
	err := pgx.BeginFunc(l.Context(), l.Pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(l.Context(), `SELECT state FROM effect WHERE id = $1 FOR UPDATE`, e.effect).Scan(&state); err != nil {
			return err
		}
		_, err := tx.Exec(l.Context(), `UPDATE effect SET state = $2, lease_token = NULL, lease_until = NULL, duplicate_of = NULL,
				next_at = CASE WHEN $2 = 'pending' THEN now() END, finished_at = CASE WHEN $2 IN ('done', 'skipped') THEN now() - $3::interval END,
				reason = CASE WHEN $2 IN ('dead', 'skipped') THEN 'other' END
			WHERE id = $1`, e.effect, string(next), ago)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows) && !e.removable():
		l.fail("the effect of %s was removed while it was %s%s", e.key, e.state, l.replaying(e))
		return
	case errors.Is(err, pgx.ErrNoRows):
		e.gone = true
		return
	case err != nil:
		l.fail("flipping %s: %v", e.key, err)
		return
	case state != e.state:
		l.fail("the effect of %s is %s, want %s", e.key, state, e.state)
		return
	}
	if e.state = next; e.state.Settled() && e.replay.IsZero() {
		e.bodied = false
	}
}

func (l *life) replaying(e *lived) string {
	if e.replay.IsZero() {
		return ""
	}
	return ", in an open replay"
}

// replays opens a replay of an event, or closes the one that is open.
func (l *life) replays() {
	e := l.any()
	if e.gone {
		return
	}
	if !e.replay.IsZero() {
		l.check(e)
		l.Exec(l, `UPDATE replay SET state = 'cancelled' WHERE id = $1`, e.replay)
		e.replay = inbox.ID{}
		return
	}
	plan := inbox.NewID(time.Now())
	found := false
	err := pgx.BeginFunc(l.Context(), l.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(l.Context(), `SELECT FROM effect WHERE id = $1 FOR UPDATE`, e.effect)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		found = true
		if _, err := tx.Exec(l.Context(), `INSERT INTO replay (id, state, scope, actor) VALUES ($1, 'planned', '{}', 'a')`, plan); err != nil {
			return err
		}
		_, err = tx.Exec(l.Context(), `INSERT INTO replay_item (replay_id, position, effect_id, event_id, route_id, action) VALUES ($1, 1, $2, $3, 1, 'replay')`, plan, e.effect, e.id)
		return err
	})
	switch {
	case err != nil:
		l.fail("planning a replay of %s: %v", e.key, err)
	case found:
		e.replay = plan
	case !e.removable():
		l.fail("the effect of %s was removed while it was %s", e.key, e.state)
	default:
		e.gone = true
	}
}

// check looks whether what must be there is.
func (l *life) check(e *lived) {
	if e.gone {
		return
	}
	event, effect, body := l.Has(l, e.id)
	switch {
	case !effect && !e.removable():
		l.fail("the effect of %s was removed while it was %s%s", e.key, e.state, l.replaying(e))
	case !event && (!e.removable() || e.age() < storetest.KeepDefault.Tombstone):
		l.fail("%s has lost its event while its effect was %s", e.key, e.state)
	case !body && e.bodied && !e.state.Settled():
		l.fail("%s has lost its body while its effect was %s", e.key, e.state)
	}
}
