package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The routes of every bundle, by what their target is like.
const (
	repeatable = "repeatable" // deduplicates by key
	once       = "once"       // cannot deduplicate
	within     = "within"     // inside the database
)

type bundle struct {
	tb     testing.TB
	pool   *pgxpool.Pool
	work   *pgxpool.Pool
	river  *pgxpool.Pool
	url    string
	schema string
	source int32
	routes map[string]int32
	queue  *jobs.Queue

	lease time.Duration
	retry inbox.RetryPolicy
	keys  keyWindows
	order map[string]sequence.Policy // by route

	paused   func(route int32) bool
	locked   func(context.Context, inbox.LockedStream)
	standbys inbox.Standbys
	series   inbox.Series // of repeatable's order

	keyring *seal.Keyring

	shadow bool // the source is in shadow mode, as stores know it

	elsewhere string // the target of repeatable, as stores know it; empty is none
	routing   int32
}

// keyWindows are the windows of every route's keys.
type keyWindows struct{ window, keep, within time.Duration }

func setup(tb testing.TB) *bundle {
	tb.Helper()
	url, schema := inboxtest.Schema(tb)
	b := &bundle{
		tb: tb, url: url, schema: schema,
		pool:  inboxtest.Open(tb, url, schema, session.PoolAdmin, 4),
		work:  inboxtest.Open(tb, url, schema, session.PoolWork, 8),
		river: inboxtest.Open(tb, url, schema, session.PoolQueue, 8),
		queue: jobs.NewQueue(jobs.QueueConfig{}),
		lease: 30 * time.Second,
		retry: inbox.RetryPolicy{Attempts: 5, Base: time.Millisecond, Max: 10 * time.Millisecond},
	}
	registered, err := registry.Register(tb.Context(), b.pool, []registry.Source{{
		Name: "shop", Provider: "test", Class: "default",
		Routes: []registry.Route{
			{Name: repeatable, Target: repeatable, Kind: "forward", Digest: []byte{1}},
			{Name: once, Target: once, Kind: "forward", Digest: []byte{1}},
			{Name: within, Target: within, Kind: "handler", Digest: []byte{1}},
		},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := inbox.EnsurePartitions(tb.Context(), b.pool, []string{"default"}, time.Now(), 1); err != nil {
		tb.Fatal(err)
	}
	b.source = registered["shop"].ID
	b.routes = map[string]int32{}
	for name, route := range registered["shop"].Routes {
		b.routes[name] = route.ID
	}
	return b
}

// store is a store of effects for a node; each process has one of its own.
func (b *bundle) store(node string) *inbox.Effects {
	b.tb.Helper()
	store, err := inbox.NewEffects(inbox.EffectsConfig{
		Pool: b.work, Enqueuer: b.queue, Node: node, Keyring: b.keyring, Locked: b.locked, Paused: b.paused, Routing: b.routing, Standbys: b.standbys,
		Routes: map[int32]inbox.EffectRoute{
			b.routes[repeatable]: {Shadow: b.shadow, Target: b.elsewhere, Order: b.order[repeatable], Series: b.series, Idempotent: true, Lease: b.lease, Retry: b.retry, KeyWindow: b.keys.window, KeyKeep: b.keys.keep, KeyWithin: b.keys.within},
			b.routes[once]:       {Shadow: b.shadow, Order: b.order[once], Lease: b.lease, Retry: b.retry, KeyKeep: b.keys.keep, KeyWithin: b.keys.within},
			b.routes[within]:     {Shadow: b.shadow, Order: b.order[within], InDatabase: true, Lease: b.lease, Retry: b.retry, KeyKeep: b.keys.keep, KeyWithin: b.keys.within},
		},
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	return store
}

// client starts a client; what is given in cfg stands, the rest is the bundle's.
func (b *bundle) client(cfg jobs.Config) *jobs.Client {
	b.tb.Helper()
	c, err := jobs.New(b.config(cfg))
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := c.Start(b.tb.Context()); err != nil {
		b.tb.Fatal(err)
	}
	b.tb.Cleanup(func() { b.stop(c) })
	return c
}

func (b *bundle) config(cfg jobs.Config) jobs.Config {
	if cfg.Pool == nil {
		cfg.Pool = b.river
	}
	if cfg.Store == nil {
		cfg.Store = b.store("node-1")
	}
	if cfg.Senders == nil {
		cfg.Senders = map[string]effect.Sender{}
	}
	for name, idempotent := range map[string]bool{repeatable: true, once: false} {
		if cfg.Senders[name] == nil {
			cfg.Senders[name] = &sink{idempotent: idempotent}
		}
	}
	if cfg.Transactionals == nil {
		cfg.Transactionals = map[string]effect.Transactional{within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { return nil })}
	}
	if cfg.Routes == nil {
		cfg.Routes = map[int32]jobs.Route{}
		for name, id := range b.routes {
			cfg.Routes[id] = jobs.Route{Name: name, Source: "shop", Provider: "test", Target: name}
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(b.tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = -1
	}
	if cfg.MaxWorkers == 0 {
		cfg.MaxWorkers = 100
	}
	return cfg
}

func (b *bundle) stop(c *jobs.Client) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.tb.Context()), 30*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		b.tb.Errorf("stopping: %v", err)
	}
}

const insertEvents = `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item,
    body_offset, body_length, id_unsigned, suspected_replay)
SELECT id, $2, id::text, 'test.happened', sha256(''), now(), 'ok', 'default', $3, 0, 4, 10, false, false
FROM unnest($1::uuid[]) AS a (id)`

const insertEffects = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at)
SELECT id, id, $2, 1, 'key-' || id, job_id, 'pending', now()
FROM unnest($1::uuid[], $3::bigint[]) AS a (id, job_id)`

// admit records n events with one effect each of the route, and their jobs. An
// event has its effect's id.
func (b *bundle) admit(route string, n int) []inbox.ID {
	b.tb.Helper()
	return b.admitWith(route, n, func(*pgx.Batch, []inbox.ID) {})
}

// admitWith admits like admit and runs what with adds in the same transaction, so that a running client sees the effects only with it.
func (b *bundle) admitWith(route string, n int, with func(*pgx.Batch, []inbox.ID)) []inbox.ID {
	b.tb.Helper()
	ctx := b.tb.Context()
	ids := make([]inbox.ID, n)
	wakes := make([]inbox.Wake, n)
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		now := time.Now()
		var jobIDs []int64
		var reserve, batch pgx.Batch
		b.queue.ReserveTx(&reserve, n, &jobIDs)
		if err := tx.SendBatch(ctx, &reserve).Close(); err != nil {
			return err
		}
		for i := range ids {
			ids[i] = inbox.NewID(now)
			wakes[i] = inbox.Wake{JobID: jobIDs[i], Kind: inbox.WakeEffect, ID: ids[i]}
		}
		body := inbox.NewID(now)
		batch.Queue(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{"Content-Type":"application/json"}', '----{"paid":1}------')`, body)
		batch.Queue(insertEvents, ids, b.source, body)
		batch.Queue(insertEffects, ids, b.routes[route], jobIDs)
		with(&batch, ids)
		b.queue.EnqueueTx(&batch, wakes)
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	return ids
}

// row is an effect as the database has it.
type row struct {
	State      string
	Reason     string
	Attempts   int
	Version    int
	Rearms     int
	JobID      int64
	Unfinished bool
	Rendered   []byte
}

func (b *bundle) row(id inbox.ID) row {
	b.tb.Helper()
	rows, err := b.pool.Query(b.tb.Context(), `
		SELECT state, coalesce(reason, '') AS reason, attempts, version, rearms, job_id, unfinished, rendered FROM effect WHERE id = $1`, id)
	if err != nil {
		b.tb.Fatal(err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[row])
	if err != nil {
		b.tb.Fatal(err)
	}
	return r
}

// outcomes are the attempts' outcomes, in order.
func (b *bundle) outcomes(id inbox.ID) []string {
	b.tb.Helper()
	rows, err := b.pool.Query(b.tb.Context(), `SELECT outcome FROM effect_attempt WHERE effect_id = $1 ORDER BY version, attempt`, id)
	if err != nil {
		b.tb.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.tb.Fatal(err)
	}
	return out
}

func (b *bundle) count(sql string, args ...any) int {
	b.tb.Helper()
	var n int
	if err := b.pool.QueryRow(b.tb.Context(), sql, args...).Scan(&n); err != nil {
		b.tb.Fatal(err)
	}
	return n
}

func (b *bundle) exec(sql string, args ...any) {
	b.tb.Helper()
	if _, err := b.pool.Exec(b.tb.Context(), sql, args...); err != nil {
		b.tb.Fatal(err)
	}
}

// eventually waits until the condition holds.
func (b *bundle) eventually(what string, ok func() bool) {
	b.tb.Helper()
	b.within(time.Minute, what, ok)
}

func (b *bundle) within(limit time.Duration, what string, ok func() bool) {
	b.tb.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			b.tb.Fatalf("waited %s for: %s", limit, what)
		case <-tick.C:
		}
	}
}

func (b *bundle) eventuallyState(id inbox.ID, want inbox.EffectState) {
	b.tb.Helper()
	b.eventually(fmt.Sprintf("effect %s %s", id, want), func() bool { return b.row(id).State == string(want) })
}

// sink is a target that keeps a ledger of what it got.
type sink struct {
	idempotent bool
	render     func(*effect.Call) ([]byte, error)
	answer     func(ctx context.Context, call *effect.Call) effect.Result

	calls  atomic.Int64
	mu     sync.Mutex
	ledger map[string]int // by key
	bodies map[string]string
}

func (s *sink) Render(call *effect.Call) ([]byte, error) {
	if s.render != nil {
		return s.render(call)
	}
	return nil, nil
}

func (s *sink) Send(ctx context.Context, call *effect.Call) effect.Result {
	s.mu.Lock()
	if s.ledger == nil {
		s.ledger, s.bodies = map[string]int{}, map[string]string{}
	}
	s.ledger[call.Key]++
	s.bodies[call.Key] = string(call.Event.Body)
	s.mu.Unlock()
	s.calls.Add(1)
	if s.answer != nil {
		return s.answer(ctx, call)
	}
	return effect.Result{Outcome: effect.Done, Code: "200"}
}

func (s *sink) Idempotent() bool { return s.idempotent }

func (s *sink) got(id inbox.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger["key-"+id.String()]
}

func senders(s *sink) map[string]effect.Sender {
	if s.idempotent {
		return map[string]effect.Sender{repeatable: s}
	}
	return map[string]effect.Sender{once: s}
}

func testLogger(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
