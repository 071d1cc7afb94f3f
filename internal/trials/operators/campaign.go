package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/schollz/progressbar/v3"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// campaign is one run.
type campaign struct {
	*lab.Campaign
	options
	db         *pgxpool.Pool
	ledger     *targetLedger
	addresses  [2]string // of the ledger, which is both targets
	deliveries *deliveries
	servers    [2]*server

	mu          sync.Mutex
	keyringFile string // the path of the keyring; empty until sealing begins
	acts        []*act
	replays     []*plannedReplay
	missing     []missingRows
	streams     map[string]*stream // by route and key
	violations  []violation
	reported    map[string]bool

	// What was observed between rounds.
	histories    map[string]*history   // by effect id
	byKey        map[string][]*history // by first key; several where a route's recipe makes it of the meaning
	underWay     map[string]standstill // by effect id
	audited      map[string]bool
	prunable     []string // effects that prune may take
	replayRuns   map[string]int
	lastRead     time.Time
	lastAudit    time.Time
	requestsRead int
	probesRead   int
	actsJudged   int

	counts      map[string]int // how often what happened, for the summary
	serverKills int
	finalCounts map[string]map[string]int
}

func newCampaign(o options, w *lab.World) *campaign {
	return &campaign{
		Campaign: lab.NewCampaign(w, schema, nil, "OPERATORS_SECRET="+secret()), options: o, deliveries: newDeliveries(), streams: map[string]*stream{}, reported: map[string]bool{},
		histories: map[string]*history{}, byKey: map[string][]*history{}, audited: map[string]bool{}, replayRuns: map[string]int{},
		counts: map[string]int{}, finalCounts: map[string]map[string]int{}, lastRead: time.Now(), lastAudit: time.Now(),
	}
}

// violate records violations, each once.
func (c *campaign) violate(found ...violation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range found {
		// Only the first line identifies a violation: the timeline below it grows.
		if text, _, _ := strings.Cut(v.String(), "\n"); !c.reported[text] {
			c.reported[text] = true
			c.violations = append(c.violations, v)
		}
	}
}

func (c *campaign) keyring() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keyringFile
}

func (c *campaign) newAct(round int, who string, h commandOptions) *act {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &act{id: len(c.acts), round: round, actor: who, kind: h.kind, action: h.action, reported: -1}
	c.acts = append(c.acts, a)
	return a
}

// countAct counts how a command ended.
func (c *campaign) countAct(a *act) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.killed:
		c.counts["command killed"]++
		c.counts["killed: "+a.kind]++
	case a.ExitCode == 0:
		c.counts["act: "+a.kind]++
	default:
		c.counts["refused: "+a.kind]++
		c.counts["because "+refusalReason(a)]++
	}
}

// allActs returns the acts so far.
func (c *campaign) allActs() []*act {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.acts)
}

// prepare makes the schema, and starts the targets and both servers.
func (c *campaign) prepare(ctx context.Context) (err error) {
	c.ledger = &targetLedger{byKey: map[string][]*request{}}
	for i := range c.addresses {
		if c.addresses[i], err = c.Target(c.ledger); err != nil {
			return err
		}
	}
	for i := range c.servers {
		if c.servers[i], err = newServer(c.Campaign, i+1); err != nil {
			return err
		}
		if err := c.servers[i].configure(variants[0].text("", c.addresses)); err != nil {
			return err
		}
	}
	ran, err := lab.RunCommand(ctx, c.servers[0].environ(), 0, c.Binary, "migrate", "up")
	if err != nil || ran.ExitCode != 0 {
		return fmt.Errorf("migrating: %w: %s", err, ran.Stderr)
	}
	cfg, err := pgxpool.ParseConfig(c.DSN())
	if err != nil {
		return fmt.Errorf("reading the server's address: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = schema
	cfg.MaxConns = 12
	if c.db, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	c.OnEnd(func() error { c.db.Close(); return nil })
	if _, err := c.db.Exec(ctx, "CREATE ROLE "+strangerRole+" LOGIN PASSWORD '"+strangerRole+"'"); err != nil {
		return fmt.Errorf("making a role: %w", err)
	}
	for _, s := range c.servers {
		if err := s.start(ctx, variants[0], variants[0].text("", c.addresses)); err != nil {
			return err
		}
	}
	return nil
}

// run runs the rounds and the checks at the end.
func (c *campaign) run(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	show := c.progress()
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	var keeper sync.WaitGroup
	var kept error
	sealing := max(c.rounds/5, 2)
	for n := 1; n <= c.rounds; n++ {
		if n == sealing {
			if err := c.beginSealing(ctx); err != nil {
				return wrapError("beginning to seal", err)
			}
			keeper.Go(func() { kept = c.rotateKeys(keeping) })
		}
		if err := c.round(ctx, n); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
		show(n)
	}
	stop()
	keeper.Wait()
	if kept != nil && !errors.Is(kept, context.Canceled) {
		return wrapError("rotating keys", kept)
	}
	return c.checkAtEnd(ctx)
}

// progress returns what shows the progress after each round: a bar on a terminal, otherwise a line now and then.
func (c *campaign) progress() func(round int) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		bar := progressbar.NewOptions(c.rounds, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("rounds"),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
		return func(n int) {
			bar.Describe(fmt.Sprintf("rounds, %d violations", len(c.violations)))
			_ = bar.Set(n)
		}
	}
	began, told := time.Now(), time.Now()
	return func(n int) {
		if time.Since(told) < 15*time.Second {
			return
		}
		told = time.Now()
		left := time.Since(began) / time.Duration(n) * time.Duration(c.rounds-n)
		fmt.Printf("round %d of %d, %d acts, %d requests, %d violations; about %s left\n", n, c.rounds, len(c.allActs()), c.requestsRead, len(c.violations), left.Round(time.Second))
	}
}

// randomFor is the source of random numbers for one part of a round.
func (c *campaign) randomFor(round, part int) *rand.Rand {
	return rig.Random(c.seed, uint64(round)<<8|uint64(part))
}

// runTogether runs the parts of a round at the same time.
func runTogether(ctx context.Context, parts ...func(context.Context) error) error {
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for i, part := range parts {
		wait.Go(func() { errs[i] = part(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// round lets all operators act at the same time, and then observes and judges the outcome.
func (c *campaign) round(ctx context.Context, n int) error {
	parts := []func(context.Context) error{func(ctx context.Context) error { return c.send(ctx, c.randomFor(n, 0)) }}
	for i := range c.operators {
		o := &operator{campaign: c, name: fmt.Sprintf("operator-%d", i+1), random: c.randomFor(n, 1+i), round: n}
		parts = append(parts, func(ctx context.Context) error {
			for range c.options.acts {
				if err := o.act(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	random := c.randomFor(n, 200)
	if n%4 == 0 {
		parts = append(parts, func(ctx context.Context) error { return c.restartOne(ctx, random) })
	}
	if n%5 == 2 && (!c.defects || n == 2) { // a defect of this kind takes its time
		parts = append(parts, func(ctx context.Context) error { return c.meddle(ctx, n) })
	}
	if n%7 == 5 {
		o := &operator{campaign: c, name: "storm", random: c.randomFor(n, 201), round: n}
		parts = append(parts, o.stormParts(ctx)...)
	}
	if err := runTogether(ctx, parts...); err != nil {
		return err
	}
	if err := c.observe(ctx); err != nil || !c.defects {
		return err
	}
	return c.injectDefects(ctx)
}

// restartOne ends a server and starts it with another configuration.
func (c *campaign) restartOne(ctx context.Context, random *rand.Rand) error {
	s, kill := c.servers[random.IntN(2)], random.IntN(5) < 2
	v := variants[0]
	if random.IntN(5) > 1 {
		v = variants[1+random.IntN(len(variants)-1)]
	}
	c.mu.Lock()
	if kill {
		c.serverKills++
		c.counts["server killed"]++
	} else {
		c.counts["server stopped"]++
	}
	c.counts["started "+v.name]++
	c.mu.Unlock()
	return c.restart(ctx, s, v, kill)
}
