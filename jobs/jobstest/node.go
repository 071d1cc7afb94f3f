package jobstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/wrong"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// node simulates one process and its workers. When it is cut off, the other nodes see a process
// that was killed: its connections are gone, and it never returns.
type node struct {
	client *jobs.Client
	pools  []*pgxpool.Pool
	wire   *wire
}

// wire is a node's connection to the database.
type wire struct {
	mu  sync.Mutex
	cut bool

	unlocked bool // its statements lock no streams

	conns map[net.Conn]bool
}

var errCut = errors.New("the node is cut off")

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, errCut
	}
	dial := new(net.Dialer).DialContext
	if w.unlocked {
		dial = wrong.Unlocked(dial)
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		_ = conn.Close()
		return nil, errCut
	}
	w.conns[conn] = true
	return conn, nil
}

func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for conn := range w.conns {
		_ = conn.Close()
	}
}

// tracer counts deadlocks.
type tracer struct {
	mu        sync.Mutex
	deadlocks int
}

func (t *tracer) saw(err error) {
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "40P01" {
		t.mu.Lock()
		t.deadlocks++
		t.mu.Unlock()
	}
}

// TraceQueryStart implements [pgx.QueryTracer].
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (t *tracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) { t.saw(d.Err) }

// TraceBatchStart implements [pgx.BatchTracer].
func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (t *tracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	t.saw(d.Err)
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (t *tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// pool makes a pool with the settings of like that is traced and uses the wire.
func (t *tracer) pool(ctx context.Context, like *pgxpool.Pool, w *wire) (*pgxpool.Pool, error) {
	cfg := like.Config()
	cfg.ConnConfig.Tracer = t
	if w != nil {
		cfg.ConnConfig.DialFunc = w.dial
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

func (c *campaign) startNode(ctx context.Context, name string) error {
	n := &node{wire: &wire{unlocked: c.Unlocked, conns: map[net.Conn]bool{}}}
	for range 2 {
		like, err := session.OpenPool(ctx, c.URL, c.Schema, session.PoolWork, 8)
		if err != nil {
			return err
		}
		pool, err := c.trace.pool(ctx, like, n.wire)
		like.Close()
		if err != nil {
			return err
		}
		n.pools = append(n.pools, pool)
	}
	store, err := inbox.NewEffects(inbox.EffectsConfig{
		Pool: n.pools[0], Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: name, Timeout: 5 * time.Second,
		Routes: map[int32]inbox.EffectRoute{c.route: {
			Lease: campaignLease, InDatabase: c.InDatabase, Idempotent: !c.InDatabase, Order: c.Policy,
			Retry: inbox.RetryPolicy{Attempts: 10_000, Base: 20 * time.Millisecond, Max: 100 * time.Millisecond},
		}},
	})
	if err != nil {
		return err
	}
	cfg := jobs.Config{
		Pool: n.pools[1], Store: store, Logger: c.Logger, MaxWorkers: c.Workers, SweepEvery: 250 * time.Millisecond, MinRunning: time.Second,
		StopTimeout: 2 * time.Second, Transactions: 4,
		Routes:  map[int32]jobs.Route{c.route: {Name: campaignRoute, Source: "orders", Provider: "test", Target: "sink", Timeout: time.Second}},
		Targets: map[string]jobs.Target{"sink": {Greedy: true, Failures: -1}},
	}
	if c.InDatabase {
		cfg.Transactionals = map[string]effect.Transactional{"sink": inside{c}}
		if c.Statement {
			cfg.Transactionals["sink"] = statement{inside{c}}
		}
	} else {
		cfg.Senders = map[string]effect.Sender{"sink": target{c}}
	}
	if n.client, err = jobs.New(cfg); err != nil {
		return err
	}
	if err := n.client.Start(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.past = append(c.nodes, n), append(c.past, store)
	return nil
}

func (c *campaign) startNodes(ctx context.Context) error {
	for i := range c.Nodes {
		if err := c.startNode(ctx, fmt.Sprint("node-", i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) stopNodes() {
	c.mu.Lock()
	nodes := c.nodes
	c.nodes = nil
	c.mu.Unlock()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_ = n.client.Stop(ctx)
			for _, p := range n.pools {
				p.Close()
			}
		})
	}
	all.Wait()
}

// killAll kills nodes, one after the other. It closes the channel after the last.
func (c *campaign) killAll(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(700 * time.Millisecond)
		defer tick.Stop()
		for i := 0; i < c.Kills; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if c.kill() {
				i++
				if err := c.startNode(ctx, fmt.Sprint("again-", i)); err != nil {
					return
				}
			}
		}
	}()
	return done
}

func (c *campaign) kill() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.nodes) == 0 {
		return false
	}
	n := c.nodes[0]
	c.nodes = c.nodes[1:]
	n.wire.sever()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = n.client.Stop(ctx)
	}()
	return true
}
