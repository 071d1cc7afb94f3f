package inbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/session"
)

const day = 24 * time.Hour

// past is a gate whose clock can be set back, and what it recorded.
type past struct {
	pool   *pgxpool.Pool
	source *inbox.Source
	gate   *inbox.Gate
	at     atomic.Int64
}

// keepDefault are the horizons of the class default in these tests.
var keepDefault = inbox.Horizons{Body: 7 * day, Tombstone: 30 * day, Effects: 14 * day, Refusals: 7 * day, Audit: 60 * day}

func newPast(tb testing.TB) *past {
	tb.Helper()
	url, schema := inboxtest.Schema(tb)
	p := &past{pool: inboxtest.Open(tb, url, schema, session.PoolAdmin, 8)}
	p.source = inboxtest.Source(tb, p.pool, "stripe")
	p.register(tb, inbox.ClassRow{Name: "default", Horizons: keepDefault})
	var err error
	p.gate, err = inbox.NewGate(inbox.GateConfig{
		Pool: inboxtest.Open(tb, url, schema, session.PoolGate, 6), Enqueuer: newQueue(),
		Clock: inbox.NewClock(p.pool, func() time.Time { return time.Unix(0, p.at.Load()) }),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.gate.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.gate.Stop(context.WithoutCancel(tb.Context())) })
	return p
}

func (p *past) register(tb testing.TB, classes ...inbox.ClassRow) {
	tb.Helper()
	if err := inbox.RegisterClasses(tb.Context(), p.pool, classes); err != nil {
		tb.Fatal(err)
	}
}

// deliver records an event as of so long ago and settles its effect as state.
func (p *past) deliver(tb testing.TB, id string, ago time.Duration, state inbox.EffectState) inbox.ID {
	tb.Helper()
	item := p.accept(tb, inboxtest.Admission(p.source, id), ago).Items[0]
	if item.Outcome != inbox.Recorded {
		tb.Fatalf("%s was %s, want recorded", id, item.Outcome)
	}
	p.settle(tb, item.ID, state, ago)
	return item.ID
}

func (p *past) accept(tb testing.TB, a *inbox.Admission, ago time.Duration) inbox.Receipt {
	tb.Helper()
	now := time.Now().Add(-ago)
	p.at.Store(now.UnixNano())
	a.ReceivedAt = now
	receipt, err := p.gate.Accept(tb.Context(), a)
	if err != nil {
		tb.Fatal(err)
	}
	return receipt
}

// settle puts all effects of an event into the state.
func (p *past) settle(tb testing.TB, event inbox.ID, state inbox.EffectState, ago time.Duration) {
	tb.Helper()
	p.exec(tb, `UPDATE effect SET state = $2, next_at = CASE WHEN $2 IN ('pending', 'retry', 'claimed') THEN now() - $3::interval END,
			finished_at = CASE WHEN $2 IN ('done', 'superseded', 'skipped', 'duplicate') THEN now() - $3::interval END,
			reason = CASE WHEN $2 IN ('dead', 'indeterminate', 'skipped') THEN 'other' END,
			lease_token = CASE WHEN $2 = 'claimed' THEN id END, lease_until = CASE WHEN $2 = 'claimed' THEN now() END,
			duplicate_of = CASE WHEN $2 = 'duplicate' THEN id END
		WHERE event_id = $1`, event, string(state), ago)
	p.exec(tb, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome)
		SELECT id, 1, 1, 'initial', 'n', now(), now(), 'done' FROM effect WHERE event_id = $1
		ON CONFLICT DO NOTHING`, event)
}

func (p *past) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := p.pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

func (p *past) count(tb testing.TB, sql string, args ...any) (n int) {
	tb.Helper()
	if err := p.pool.QueryRow(tb.Context(), sql, args...).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (p *past) pruner(tb testing.TB) *inbox.Pruner {
	tb.Helper()
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: p.pool, Enqueuer: newQueue(), Node: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	pruner, err := inbox.NewPruner(inbox.PruneConfig{Pool: p.pool, Effects: effects, Rate: -1})
	if err != nil {
		tb.Fatal(err)
	}
	return pruner
}

func (p *past) prune(tb testing.TB, include ...inbox.Prunable) inbox.PruneReport {
	tb.Helper()
	run := inbox.PruneRun{Include: include, Anew: true}
	if len(include) > 0 {
		run.Actor, run.Reason = "test", "a test"
	}
	// Whatever else uses the database may make a pass give way: the next goes on.
	all := inbox.PruneReport{Rows: map[string]int64{}}
	inboxtest.Until(tb, "a pass that is complete", func() bool {
		report, err := p.pruner(tb).Run(tb.Context(), run)
		if err != nil {
			tb.Fatal(err)
		}
		for table, n := range report.Rows {
			all.Rows[table] += n
		}
		all.Partitions = append(all.Partitions, report.Partitions...)
		all.Kept += report.Kept
		return report.Complete
	})
	return all
}

// has reports which of the events are still there.
func (p *past) has(tb testing.TB, id inbox.ID) (event, effect, body bool) {
	tb.Helper()
	err := p.pool.QueryRow(tb.Context(), `
		SELECT EXISTS (SELECT FROM inbox_event WHERE id = $1), EXISTS (SELECT FROM effect WHERE event_id = $1),
			EXISTS (SELECT FROM inbox_event e JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id WHERE e.id = $1)`, id).
		Scan(&event, &effect, &body)
	if err != nil {
		tb.Fatal(err)
	}
	return event, effect, body
}
