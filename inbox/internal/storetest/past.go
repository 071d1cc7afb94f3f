package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/session"
)

// Day is the unit of the horizons.
const Day = 24 * time.Hour

// Past is a gate whose clock can be set back, and what it recorded.
type Past struct {
	Pool   *pgxpool.Pool
	Source *inbox.Source
	Gate   *gate.Gate
	At     atomic.Int64
}

// KeepDefault are the horizons of the class default in these tests.
var KeepDefault = prune.Horizons{Body: 7 * Day, Tombstone: 30 * Day, Effects: 14 * Day, Refusals: 7 * Day, Audit: 60 * Day}

// NewPast returns a gate without events.
func NewPast(tb testing.TB) *Past {
	tb.Helper()
	url, schema := inboxtest.Schema(tb)
	p := &Past{Pool: inboxtest.Open(tb, url, schema, session.PoolAdmin, 8)}
	p.Source = inboxtest.Source(tb, p.Pool, "stripe")
	p.Register(tb, prune.ClassRow{Name: "default", Horizons: KeepDefault})
	var err error
	p.Gate, err = gate.New(gate.Config{
		Pool: inboxtest.Open(tb, url, schema, session.PoolGate, 6), Enqueuer: Queue(),
		Clock: inbox.NewClock(p.Pool, func() time.Time { return time.Unix(0, p.At.Load()) }),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Gate.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Gate.Stop(context.WithoutCancel(tb.Context())) })
	return p
}

// Register registers retention classes.
func (p *Past) Register(tb testing.TB, classes ...prune.ClassRow) {
	tb.Helper()
	if err := prune.RegisterClasses(tb.Context(), p.Pool, classes); err != nil {
		tb.Fatal(err)
	}
}

// Deliver records an event as received that long ago and settles its effect as state.
func (p *Past) Deliver(tb testing.TB, id string, ago time.Duration, state inbox.EffectState) inbox.ID {
	tb.Helper()
	item := p.Accept(tb, inboxtest.Admission(p.Source, id), ago).Items[0]
	if item.Outcome != inbox.Recorded {
		tb.Fatalf("%s was %s, want recorded", id, item.Outcome)
	}
	p.Settle(tb, item.ID, state, ago)
	return item.ID
}

// Accept passes an admission to the gate as received that long ago.
func (p *Past) Accept(tb testing.TB, a *inbox.Admission, ago time.Duration) inbox.Receipt {
	tb.Helper()
	now := time.Now().Add(-ago)
	p.At.Store(now.UnixNano())
	a.ReceivedAt = now
	receipt, err := p.Gate.Accept(tb.Context(), a)
	if err != nil {
		tb.Fatal(err)
	}
	return receipt
}

// Settle puts all effects of an event into the state.
func (p *Past) Settle(tb testing.TB, event inbox.ID, state inbox.EffectState, ago time.Duration) {
	tb.Helper()
	p.Exec(tb, `UPDATE effect SET state = $2, next_at = CASE WHEN $2 IN ('pending', 'retry', 'claimed') THEN now() - $3::interval END,
			finished_at = CASE WHEN $2 IN ('done', 'superseded', 'skipped', 'duplicate') THEN now() - $3::interval END,
			reason = CASE WHEN $2 IN ('dead', 'indeterminate', 'skipped') THEN 'other' END,
			lease_token = CASE WHEN $2 = 'claimed' THEN id END, lease_until = CASE WHEN $2 = 'claimed' THEN now() END,
			duplicate_of = CASE WHEN $2 = 'duplicate' THEN id END
		WHERE event_id = $1`, event, string(state), ago)
	p.Exec(tb, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome)
		SELECT id, 1, 1, 'initial', 'n', now(), now(), 'done' FROM effect WHERE event_id = $1
		ON CONFLICT DO NOTHING`, event)
}

// Exec runs a statement.
func (p *Past) Exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := p.Pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Count reads one number.
func (p *Past) Count(tb testing.TB, sql string, args ...any) (n int) {
	tb.Helper()
	if err := p.Pool.QueryRow(tb.Context(), sql, args...).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Pruner returns a pruner without a limit of its rate.
func (p *Past) Pruner(tb testing.TB) *prune.Pruner {
	tb.Helper()
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: p.Pool, Enqueuer: Queue(), Node: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	pruner, err := prune.New(prune.Config{Pool: p.Pool, Effects: effects, Rate: -1})
	if err != nil {
		tb.Fatal(err)
	}
	return pruner
}

// Prune prunes until a pass is complete.
func (p *Past) Prune(tb testing.TB, include ...prune.Prunable) prune.Report {
	tb.Helper()
	run := prune.Run{Include: include, Anew: true}
	if len(include) > 0 {
		run.Actor, run.Reason = "test", "a test"
	}
	// Another user of the database may interrupt a pass; the next pass continues.
	all := prune.Report{Rows: map[string]int64{}}
	inboxtest.Until(tb, "a pass that is complete", func() bool {
		report, err := p.Pruner(tb).Run(tb.Context(), run)
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

// Has reports which of the events are still there.
func (p *Past) Has(tb testing.TB, id inbox.ID) (event, effect, body bool) {
	tb.Helper()
	err := p.Pool.QueryRow(tb.Context(), `
		SELECT EXISTS (SELECT FROM inbox_event WHERE id = $1), EXISTS (SELECT FROM effect WHERE event_id = $1),
			EXISTS (SELECT FROM inbox_event e JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id WHERE e.id = $1)`, id).
		Scan(&event, &effect, &body)
	if err != nil {
		tb.Fatal(err)
	}
	return event, effect, body
}
