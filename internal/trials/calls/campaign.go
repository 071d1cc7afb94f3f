package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say what a campaign does.
type Options struct {
	// Storms is how many calls are made by a hundred callers at once.
	Storms int

	// Steps is how many random steps the actors make together.
	Steps int

	// Seed decides what the actors and the sinks do.
	Seed uint64

	// Defect plants a defect in the configuration of the nodes.
	Defect Defect

	// Progress reports what has been done; it may be nil.
	Progress func(format string, args ...any)
}

// Defect is something wrong in the nodes' configuration, which the check must notice.
type Defect string

// RepeatOnce says that the target which cannot deduplicate can.
const RepeatOnce Defect = "a target that cannot deduplicate is said to do so"

// configuration is the configuration of both nodes. %t says whether the target that cannot deduplicate is configured as
// if it could.
const configuration = `
work: { lease: 1s, sweep_every: 1s, workers: 20 }
targets:
  once: { kind: forward, url: env:CALLS_ONCE, idempotent: %t, timeout: 700ms, breaker: off, keep_reply: true, retry: { attempts: 1000, base: 20ms, max: 200ms } }
  same: { kind: forward, url: env:CALLS_SAME, idempotent: true, timeout: 700ms, breaker: off, keep_reply: true, retry: { attempts: 1000, base: 20ms, max: 200ms } }
sources:
  agents:
    provider: operation
    credentials:
      planner: { secrets: [env:PLANNER_NEW, env:PLANNER_OLD], tenant: acme, operations: [charge, step] }
      sparing: { secrets: [env:SPARING_NEW, env:SPARING_OLD], tenant: acme, operations: [charge], new_keys: %d/m }
      greedy: { secrets: [env:GREEDY_NEW, env:GREEDY_OLD], tenant: other, operations: [charge], new_keys: 1/m }
    sessions: { longest: 1h }
    operations:
      charge: { compare: canonical, volatile: [note], repeats: { within: 1h, answer: 409 } }
      step: { key: [header.Run-Id, header.Oncegate-Step, header.Oncegate-Tick=0], compare: canonical, volatile: [note] }
    routes:
      - { name: once, types: [charge, step], target: once }
      - { name: same, types: [charge, step], target: same }
`

// Campaign is one run.
type Campaign struct {
	options Options
	world   *lab.World
	schema  string
	config  string
	db      *pgx.Conn
	sinks   *sinks
	nodes   [2]*node
	client  *http.Client

	planner, sparing, greedy *credential

	turn atomic.Int64 // decides which node is asked next

	mu       sync.Mutex
	evidence *Evidence
}

// node is one of the two. It is killed and started again at the same address.
type node struct {
	number int
	public string

	mu      sync.Mutex
	process *rig.Node
}

// NewWorld builds the binary and starts PostgreSQL, under dir.
func NewWorld(ctx context.Context, dir string) (*lab.World, error) {
	return lab.NewWorld(ctx, lab.WorldConfig{Name: "calls", Dir: dir, Postgres: devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "300"}}})
}

// Run runs a campaign and returns what was seen.
func Run(ctx context.Context, w *lab.World, o Options) (_ *Evidence, err error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	c := &Campaign{
		options: o, world: w, schema: "calls_" + rig.RunID(), client: rig.NewClient(200, 10*time.Second),
		planner: &credential{name: "planner"}, sparing: &credential{name: "sparing"}, greedy: &credential{name: "greedy", spent: true},
		evidence: newEvidence(),
	}
	defer func() {
		err = lab.ExplainFailure(err, fmt.Sprintf("./scripts/calls -storms %d -steps %d -seed %d", o.Storms, o.Steps, o.Seed), w.Logs(c.schema)...)
	}()
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	for i := range o.Storms {
		began := time.Now()
		if err := c.storm(ctx, i); err != nil {
			return nil, fmt.Errorf("storm %d: %w", i+1, err)
		}
		o.Progress("storm %d of %d (%.1f s)", i+1, o.Storms, time.Since(began).Seconds())
	}
	if err := c.walk(ctx); err != nil {
		return nil, err
	}
	return c.evidence, c.read(ctx)
}

func (c *Campaign) prepare(ctx context.Context) (err error) {
	if c.db, err = c.world.Prepare(ctx, c.schema); err != nil {
		return err
	}
	if c.sinks, err = startSinks(); err != nil {
		return err
	}
	// The quota of a minute is for all storms; the hundred callers of each need one key together.
	if c.config, err = c.world.WriteFile(c.schema+".yml", fmt.Sprintf(configuration, c.options.Defect == RepeatOnce, max(c.options.Storms, 1))); err != nil {
		return err
	}
	for i := range c.nodes {
		c.nodes[i] = &node{number: i}
		if c.nodes[i].public, err = rig.FreeAddress(); err != nil {
			return err
		}
		if err := c.start(ctx, c.nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// start starts a node with the current secrets.
func (c *Campaign) start(ctx context.Context, n *node) (err error) {
	n.process, err = c.world.Serve(ctx, rig.NodeConfig{
		Name: fmt.Sprintf("%s-%d", c.schema, n.number), Config: c.config, Schema: c.schema, Public: n.public, Env: c.environ(),
	})
	return err
}

// environ is the environment of the nodes and of the operator's commands.
func (c *Campaign) environ() []string {
	env := []string{"CALLS_ONCE=" + c.sinks.url(Once), "CALLS_SAME=" + c.sinks.url(Same), "LOG_LEVEL=info", "ONCEGATE_LOG_EVENTS=all"}
	for _, who := range []*credential{c.planner, c.sparing, c.greedy} {
		env = append(env, who.environ()...)
	}
	return env
}

// restart kills a node, rotates all secrets, and starts the node again.
func (c *Campaign) restart(ctx context.Context, n *node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.process.Kill(); err != nil {
		return err
	}
	for _, who := range []*credential{c.planner, c.sparing, c.greedy} {
		who.rotate()
	}
	c.count("node killed, secrets rotated")
	return c.start(ctx, n)
}

func (c *Campaign) close() error {
	var errs []error
	for _, n := range c.nodes {
		if n != nil && n.process != nil {
			errs = append(errs, n.process.Kill())
		}
	}
	if c.sinks != nil {
		errs = append(errs, c.sinks.server.Close())
	}
	if c.db != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, c.db.Close(ctx))
	}
	return errors.Join(errs...)
}

func (c *Campaign) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evidence.Counts[what]++
}

// random is the source of an actor.
func (c *Campaign) random(actor int) *rand.Rand { return rig.Random(c.options.Seed, uint64(actor)) }
