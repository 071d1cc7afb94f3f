package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/drill/sender"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/migrations"
)

// Options say what a campaign does.
type Options struct {
	// Cycles is the number of kills, cuts and silences.
	Cycles int

	// Seed decides the schedule of kills and deliveries. What a kill hits still depends on timing.
	Seed uint64

	// Defect plants a defect, which has to be noticed. The campaign then does not wait for the effects.
	Defect Defect

	// Pooler puts a PgBouncer in session mode between the binary and PostgreSQL. It is configured to ignore what
	// startup messages ask for, as people do when a client is refused.
	Pooler bool

	// KillPostgresOnly leaves the binary alone, and kills only PostgreSQL.
	KillPostgresOnly bool

	// Progress reports each cycle; it may be nil.
	Progress func(format string, args ...any)
}

// Defect is a planted defect.
type Defect string

// The defects.
const (
	// AckBeforeCommit acknowledges before the commit.
	AckBeforeCommit Defect = "ack before commit"
	// AsynchronousCommit does not wait for the disk: synchronous_commit=off.
	AsynchronousCommit Defect = "synchronous_commit=off"
)

// Summary is a campaign in figures.
type Summary struct {
	Cycles                                                                int
	Sent                                                                  ledger.Counts
	Effects, Forwarded                                                    int
	RandomKills, FailpointKills, PostgresKills, BothKills, Cuts, Silences int
	Violations                                                            int
	Starts                                                                int
	Elapsed                                                               time.Duration
	Seed                                                                  uint64
}

// String is the summary in one line.
func (s *Summary) String() string {
	n := &s.Sent
	return fmt.Sprintf("crash: %d cycles (killed the binary %d times at random and %d times at fail points, PostgreSQL %d times, both %d times; cut at COMMIT %d times, silenced %d times), "+
		"%d events in %d deliveries, %d acknowledged, of which %d duplicates and %d conflicts; %d without an answer, %d answered with 5xx, %d forged events; %d effects, %d forwarded; "+
		"violations %d; seed %d, %.1f s",
		s.Cycles, s.RandomKills, s.FailpointKills, s.PostgresKills, s.BothKills, s.Cuts, s.Silences, n.Events, n.Deliveries, n.Acknowledged, n.Duplicates, n.Conflicts, n.Unanswered, n.Unavailable, n.Forged,
		s.Effects, s.Forwarded, s.Violations, s.Seed, s.Elapsed.Seconds())
}

// Campaign is one run.
type Campaign struct {
	*lab.Campaign
	options     Options
	node        rig.NodeConfig
	process     *rig.Node
	proxy       *rig.Proxy
	random      *rand.Rand
	summary     Summary
	run         string
	sent        *ledger.Sent
	received    *ledger.Received
	databaseURL string // how the binary reaches the database, but for the proxy
	stopSenders func()
}

// Result is what a campaign found.
type Result struct {
	Summary    Summary
	Evidence   *invariant.Evidence
	Violations []rig.Violation

	// Schema is the schema of the campaign's tables.
	Schema string
}

// Run runs a campaign.
func Run(ctx context.Context, w *lab.World, o Options) (_ *Result, err error) {
	started, run := time.Now(), rig.RunID()
	c := &Campaign{
		Campaign: lab.NewCampaign(w, "crash_"+run, o.Progress, "CRASH_SECRET="+secret, "LOG_LEVEL=warn"),
		options:  o, run: run, sent: ledger.NewSent(), received: ledger.NewReceived(), databaseURL: w.DSN(),
		stopSenders: func() {}, random: rig.Random(o.Seed, 0), summary: Summary{Cycles: o.Cycles, Seed: o.Seed},
	}
	defer func() {
		err = c.End(err, fmt.Sprintf("./scripts/crash -cycles %d -seed %d -pooler=%t", o.Cycles, o.Seed, o.Pooler))
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.runCycles(ctx); err != nil {
		return nil, err
	}
	db, err := w.Connect(ctx, c.Schema)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	e := &invariant.Evidence{Sent: c.sent.Events(), Routes: []invariant.Route{
		{Name: "sink", Kind: invariant.Idempotent, Keyed: true, Requests: c.received.Requests()},
		{Name: "table", Kind: invariant.Table, Keyed: true},
	}}
	if e.Stored, err = invariant.Read(ctx, db); err != nil {
		return nil, err
	}
	c.summary.Sent, c.summary.Effects = c.sent.Counts(), len(e.Effects)
	for _, requests := range e.Routes[0].Requests {
		c.summary.Forwarded += requests.Complete
	}
	r := &Result{Schema: c.Schema, Evidence: e, Violations: invariant.Violations(invariant.Check(e))}
	c.summary.Violations, c.summary.Elapsed = len(r.Violations), time.Since(started)
	r.Summary = c.summary
	return r, nil
}

// poolerIgnores lists what the pooler ignores in startup messages.
const poolerIgnores = "search_path, synchronous_commit, lock_timeout, statement_timeout, idle_in_transaction_session_timeout, options, " +
	"client_connection_check_interval, tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, tcp_user_timeout, " +
	"enable_seqscan, enable_hashjoin, enable_mergejoin, enable_bitmapscan, jit, plan_cache_mode, random_page_cost"

// gatePool is the application_name of the connections over which the gate commits.
const gatePool = "oncegate gate"

// prepare makes the schema, the targets, the configuration and the addresses.
func (c *Campaign) prepare(ctx context.Context) error {
	if c.options.Pooler {
		pooler, err := devpg.StartPooler(ctx, devpg.PoolerConfig{Server: c.DSN(), Settings: map[string]string{
			"ignore_startup_parameters": poolerIgnores, "server_login_retry": "0.1",
		}})
		if err != nil {
			return err
		}
		c.OnEnd(pooler.Stop)
		c.databaseURL = pooler.DSN()
	}
	if err := migrations.Up(ctx, c.databaseURL, c.Schema); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	// The database commits without waiting for the disk, so the binary has to ask for what it promises.
	db, err := c.World.Prepare(ctx, c.Schema, invariant.MakeTable, "ALTER DATABASE oncegate SET synchronous_commit = off")
	if err != nil {
		return err
	}
	if err := db.Close(ctx); err != nil { // PostgreSQL is going to be killed
		return fmt.Errorf("closing the connection: %w", err)
	}
	c.node.Role = "receive,work"
	if c.options.Defect == AsynchronousCommit {
		c.node.Role = "receive" // a worker's commits would sync the gate's too
	}
	if err := c.node.ChooseAddresses(); err != nil {
		return err
	}
	if c.proxy, c.node.DSN, err = c.Proxy(c.databaseURL, gatePool); err != nil {
		return err
	}
	target, err := c.Target(&ledger.Target{Received: c.received})
	if err != nil {
		return err
	}
	return c.Configure(configuration, target)
}

// runCycles lets the senders deliver, runs the cycles, and waits until all effects have come to rest.
func (c *Campaign) runCycles(ctx context.Context) error {
	plan := c.plan()
	if err := c.startNode(ctx, plan[0]); err != nil {
		return err
	}
	senders := sender.New(sender.Config{
		Run: c.run, Ledger: c.sent, Sources: []sender.Source{sender.Stripe(secret, wrongSecret)}, Addresses: []string{c.node.Public},
		Count: senderCount, Pause: senderPause,
	})
	sending, stop := context.WithCancel(ctx)
	defer stop()
	senders.Start(sending, c.options.Seed+1)
	for i, step := range plan[:c.options.Cycles] {
		if c.options.Defect != "" && i == c.options.Cycles-1 {
			c.stopSenders = stop // otherwise redeliveries repair what the last kill has lost
		}
		if err := c.cycle(ctx, step, plan[i+1]); err != nil {
			return fmt.Errorf("cycle %d: %w", i+1, err)
		}
		c.Progress("cycle %d of %d: %s", i+1, c.options.Cycles, step)
	}
	stop()
	if c.options.Defect != "" {
		senders.Wait()
		return nil
	}
	timed, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	senders.DeliverRest(timed, c.options.Seed)
	db, err := c.Connect(ctx, c.Schema)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := rig.Rest(ctx, db, time.Minute); err != nil { // the check reports unfinished effects
		return err
	}
	if err := c.process.Stop(30 * time.Second); err != nil {
		return err
	}
	if err := c.process.Err(); err != nil {
		return fmt.Errorf("the binary did not stop in order: %w: %s", err, c.process.Tail())
	}
	return nil
}
