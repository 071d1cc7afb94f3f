package calls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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

// configuration is the configuration of both nodes. %[2]t says whether the target that cannot deduplicate is configured as
// if it could.
const configuration = `
work: { lease: 1s, sweep_every: 1s, workers: 20 }
targets:
  once: { kind: forward, url: "http://%[1]s/once", idempotent: %[2]t, timeout: 700ms, breaker: off, keep_reply: true, retry: { attempts: 1000, base: 20ms, max: 200ms } }
  same: { kind: forward, url: "http://%[1]s/same", idempotent: true, timeout: 700ms, breaker: off, keep_reply: true, retry: { attempts: 1000, base: 20ms, max: 200ms } }
sources:
  agents:
    provider: operation
    credentials:
      planner: { secrets: [env:PLANNER_NEW, env:PLANNER_OLD], tenant: acme, operations: [charge, step] }
      sparing: { secrets: [env:SPARING_NEW, env:SPARING_OLD], tenant: acme, operations: [charge], new_keys: %[3]d/m }
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
	*lab.Campaign
	options Options
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
	rig.NodeConfig

	mu      sync.Mutex
	process *rig.Node
}

// World is what the campaigns run on.
var World = lab.WorldConfig{Postgres: devpg.Config{Volatile: true, Settings: map[string]string{"max_connections": "300"}}}

// Run runs a campaign and returns what was seen.
func Run(ctx context.Context, w *lab.World, o Options) (_ *Evidence, err error) {
	c := &Campaign{
		Campaign: lab.NewCampaign(w, "calls_"+rig.RunID(), o.Progress, "LOG_LEVEL=info", "ONCEGATE_LOG_EVENTS=all"),
		options:  o, client: rig.NewClient(200, 10*time.Second),
		planner: &credential{name: "planner"}, sparing: &credential{name: "sparing"}, greedy: &credential{name: "greedy", spent: true},
		evidence: newEvidence(),
	}
	defer func() {
		err = c.End(err, fmt.Sprintf("./scripts/calls -storms %d -steps %d -seed %d", o.Storms, o.Steps, o.Seed))
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	for i := range o.Storms {
		began := time.Now()
		if err := c.storm(ctx, i); err != nil {
			return nil, fmt.Errorf("storm %d: %w", i+1, err)
		}
		c.Progress("storm %d of %d (%.1f s)", i+1, o.Storms, time.Since(began).Seconds())
	}
	if err := c.walk(ctx); err != nil {
		return nil, err
	}
	return c.evidence, c.read(ctx)
}

func (c *Campaign) prepare(ctx context.Context) (err error) {
	if err = c.Prepare(ctx); err != nil {
		return err
	}
	c.sinks = newSinks()
	address, err := c.Target(c.sinks)
	if err != nil {
		return err
	}
	// The quota of a minute is for all storms; the hundred callers of each need one key together.
	if err := c.Configure(configuration, address, c.options.Defect == RepeatOnce, max(c.options.Storms, 1)); err != nil {
		return err
	}
	for i := range c.nodes {
		n := &node{NodeConfig: rig.NodeConfig{Name: strconv.Itoa(i)}}
		if err := n.ChooseAddresses(); err != nil {
			return err
		}
		c.nodes[i] = n
		if err := c.start(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// start starts a node with the current secrets.
func (c *Campaign) start(ctx context.Context, n *node) (err error) {
	cfg := n.NodeConfig
	cfg.Env = c.secrets()
	n.process, err = c.Serve(ctx, cfg)
	return err
}

// secrets are variables of the nodes and of the operator's commands.
func (c *Campaign) secrets() (env []string) {
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

func (c *Campaign) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evidence.Counts[what]++
}

// random is the source of an actor.
func (c *Campaign) random(actor int) *rand.Rand { return rig.Random(c.options.Seed, uint64(actor)) }
