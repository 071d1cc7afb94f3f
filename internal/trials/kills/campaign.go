package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/drill/sender"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Options say what a campaign does.
type Options struct {
	// Cycles is the number of faults.
	Cycles int

	// Seed decides the order of the faults.
	Seed uint64

	// Defect plants a defect in the workers.
	Defect Defect

	// Progress reports each cycle; it may be nil.
	Progress func(format string, args ...any)
}

// Summary is a campaign in figures.
type Summary struct {
	Cycles, Kills, Pauses, Resets, Cuts, BusyAnswers int
	Starts, Events                                   int

	// SentAgain counts the effects at targets that deduplicate which were sent more than once, and Requests all
	// requests there.
	SentAgain, Requests int

	// AtMostOnce counts the effects at targets that cannot deduplicate. Of these, Indeterminate are indeterminate, and
	// of NeverArrived nothing reached the target.
	AtMostOnce, Indeterminate, NeverArrived int

	// Reasons counts the indeterminate effects by reason.
	Reasons map[string]int

	// Duplicates counts the effects that did not happen because another event about the same order did.
	Duplicates int

	Violations int
	Seed       uint64
	Elapsed    time.Duration
}

// String is the summary in one line.
func (s *Summary) String() string {
	return fmt.Sprintf("kills: %d cycles (%d kills, %d pauses, %d resets, %d cuts from PostgreSQL, %d answers of 503), %d events; "+
		"where the target deduplicates: %d requests, %d effects were sent more than once; where it cannot: %d effects, "+
		"%d indeterminate %v, of which %d never arrived; %d duplicates of a key; %d violations; seed %d, %.1f s",
		s.Cycles, s.Kills, s.Pauses, s.Resets, s.Cuts, s.BusyAnswers, s.Events, s.Requests, s.SentAgain, s.AtMostOnce, s.Indeterminate, s.Reasons, s.NeverArrived, s.Duplicates,
		s.Violations, s.Seed, s.Elapsed.Seconds())
}

// Result is what a campaign found.
type Result struct {
	Summary    Summary
	Violations []rig.Violation
	Evidence   *Evidence

	// Schema is the schema of the campaign's tables.
	Schema string
}

const (
	applyWord     = "kills_apply"                                  // the name of the function in the database
	sendStartWord = "SET rendered = CASE WHEN h.replace"           // part of the statement that records the start of a send
	secret        = "whsec_kills_0123456789abcdef0123456789abcdef" //nolint:gosec // of a server that lives for minutes
	waitLimit     = 60 * time.Second                               // the limit for everything that must happen
)

// Campaign is one run.
type Campaign struct {
	*lab.Campaign
	options      Options
	run          string
	random       *rand.Rand
	received     *ledger.Received
	script       *script
	sent         *ledger.Sent
	client       sender.Client
	made         int              // events
	newest       map[Route]string // the newest event of each route
	neverInDoubt map[string]bool  // see Evidence.NeverInDoubt
	slots        [2]*workerSlot
	receiver     *rig.Node
	summary      Summary
}

// Run runs a campaign.
func Run(ctx context.Context, w *lab.World, o Options) (_ *Result, err error) {
	started, run, sent := time.Now(), rig.RunID(), ledger.NewSent()
	c := &Campaign{
		// The cycles read what the workers log, so that nothing may be folded.
		Campaign: lab.NewCampaign(w, "kills_"+run, o.Progress, "KILLS_SECRET="+secret, "LOG_LEVEL=info", "ONCEGATE_LOG_EVENTS=all"),
		options:  o, run: run, received: ledger.NewReceived(), script: newScript(), sent: sent, newest: map[Route]string{}, neverInDoubt: map[string]bool{},
		client: sender.Client{Ledger: sent, Sources: []sender.Source{sender.Stripe(secret, "")}, HTTP: rig.NewClient(2, 10*time.Second)},
		random: rig.Random(o.Seed, 0), summary: Summary{Cycles: o.Cycles, Seed: o.Seed},
	}
	defer func() { err = c.End(err, fmt.Sprintf("./scripts/kills -cycles %d -seed %d", o.Cycles, o.Seed)) }()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.runCycles(ctx); err != nil {
		return nil, err
	}
	if _, err := rig.Rest(ctx, c.DB, waitLimit); err != nil { // the check reports unfinished effects
		return nil, err
	}
	// The tables are read before the targets' ledger, so that every effect that the tables call done is in the ledger.
	stored, err := invariant.Read(ctx, c.DB)
	if err != nil {
		return nil, err
	}
	e := &Evidence{NeverInDoubt: c.neverInDoubt, Evidence: invariant.Evidence{Stored: stored, Sent: sent.Events(), Routes: invariantRoutes(c.received.Requests())}}
	if e.Early, err = readEvents(ctx, c.DB, readEarly, lease); err != nil {
		return nil, err
	}
	if e.Waited, err = readEvents(ctx, c.DB, readWaited, timeout); err != nil {
		return nil, err
	}
	r := &Result{Schema: c.Schema, Evidence: e, Violations: Check(e)}
	c.summarise(r)
	c.summary.Elapsed = time.Since(started)
	r.Summary = c.summary
	return r, nil
}

// prepare makes the schema and the configuration, and starts the targets and all nodes.
func (c *Campaign) prepare(ctx context.Context) error {
	if err := c.Prepare(ctx, invariant.MakeTable, makeTable); err != nil {
		return err
	}
	precedes := "429"
	if c.options.Defect == RetryBusy {
		precedes += ", 503"
	}
	if err := c.Configure(configuration, c.options.Defect == RetryOnce, precedes); err != nil {
		return err
	}
	for i := range c.slots {
		var err error
		if c.slots[i], err = c.newWorkerSlot(i); err != nil {
			return err
		}
		if err := c.startWorker(ctx, c.slots[i], ""); err != nil {
			return err
		}
	}
	c.OnEnd(func() error { close(c.script.closed); return nil })
	return c.startReceiver(ctx, "")
}

// startReceiver starts the node that receives the events. It is never killed. The configuration names targets, so it
// gets the targets of the first slot. It sends nothing to them.
func (c *Campaign) startReceiver(ctx context.Context, failpoint string) (err error) {
	cfg := rig.NodeConfig{Name: "receive", Role: "receive", Failpoint: failpoint, Env: c.slots[0].node.Env}
	if failpoint == "" {
		c.receiver, err = c.Serve(ctx, cfg)
		return err
	}
	if c.receiver, err = c.Start(cfg); err != nil {
		return err
	}
	return c.waitForClockAlarm(ctx, c.receiver)
}

// runCycles runs the cycles, each round of them in another order.
func (c *Campaign) runCycles(ctx context.Context) error {
	draw := rig.Rounds(c.random, c.options.Defect.steps())
	for i := range c.options.Cycles {
		s := draw()
		if err := c.deliverToOtherRoutes(ctx, s); err != nil {
			return err
		}
		began := time.Now()
		if err := c.cycle(ctx, s); err != nil {
			return fmt.Errorf("cycle %d, %s: %w", i+1, s, err)
		}
		if s.route.HasKey() && c.options.Defect == "" {
			if err := c.deliverTwin(ctx, s.route); err != nil {
				return err
			}
		}
		c.Progress("cycle %d of %d: %s (%.1f s)", i+1, c.options.Cycles, s, time.Since(began).Seconds())
	}
	return nil
}

func (c *Campaign) summarise(r *Result) {
	s := &c.summary
	s.Events, s.Violations = len(r.Evidence.Sent), len(r.Violations)
	for i := range r.Evidence.Effects {
		e := &r.Evidence.Effects[i]
		h := r.Evidence.Routes[0].Requests[e.Event]
		switch Route(e.Route) {
		case Idempotent:
			s.Requests += h.Complete
			if h.Complete > 1 {
				s.SentAgain++
			}
		case Once, Mail:
			if inbox.EffectState(e.State) == inbox.EffectDuplicate {
				s.Duplicates++
				continue
			}
			s.AtMostOnce++
			if inbox.EffectState(e.State) == inbox.EffectIndeterminate {
				s.Indeterminate++
				if s.Reasons == nil {
					s.Reasons = map[string]int{}
				}
				s.Reasons[e.Reason]++
				if h.Complete == 0 {
					s.NeverArrived++
				}
			}
		case Table:
			if inbox.EffectState(e.State) == inbox.EffectDuplicate {
				s.Duplicates++
			}
		}
	}
}
