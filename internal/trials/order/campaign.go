package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/drill/sender"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// campaign runs one variant.
type campaign struct {
	*lab.Campaign
	options
	variant variant
	sent    *ledger.Sent
	client  sender.Client

	startedAt time.Time // also the time in the body of every delivery
	receivers []*rig.Node
	workers   []*rig.Node
	clock     *lab.DatabaseClock // nil if the database's clock is not set
	external  *externalTarget    // nil if the target is inside the database
	kills     int
	pacing    sync.Mutex // one sender asks how much is done
	done      int        // effects, as far as the senders know

	// What came of the variant's fault.
	vanishedHosts     int            // how many hosts vanished
	lockedFor         time.Duration  // how long a stream was locked
	othersDone        int            // effects of other streams that were done meanwhile
	longestStandstill time.Duration  // the longest time without progress of any other stream
	jumped            bool           // the database's clock was ahead
	ahead             map[string]int // times that were ahead when the clock was set right, by where they are
	pulledBack        float64        // what the workers report
}

// result is what a campaign found.
type result struct {
	variant             variant
	sequences, length   int
	unordered           int
	deliveries, kills   int
	attempts, deadlocks int
	heldRunnable        float64
	ingested, elapsed   time.Duration
	violations          []rig.Violation
	stuck, applied      int
	seed                uint64
	fault               string
}

// String is the result in one line.
func (r *result) String() string {
	verdict := "kept"
	if len(r.violations) > 0 {
		verdict = fmt.Sprintf("BROKEN in %d ways", len(r.violations))
	}
	beside := ""
	if r.unordered > 0 {
		beside = fmt.Sprintf(" and %d without order", r.unordered)
	}
	return fmt.Sprintf("order %s: %s; %d keys of %d numbers%s in %d deliveries, %d workers killed; %d applied in %d attempts, %d stuck, "+
		"held found runnable %g, deadlocks %d%s; ingested in %.1f s, at rest after %.1f s (%.0f events/s); seed %d",
		r.variant.name, verdict, r.sequences, r.length, beside, r.deliveries, r.kills, r.applied, r.attempts, r.stuck, r.heldRunnable, r.deadlocks, r.fault,
		r.ingested.Seconds(), r.elapsed.Seconds(), float64(r.sequences*r.length+r.unordered)/r.elapsed.Seconds(), r.seed)
}

// The target records the numbers of each key in the order of commits. It fails for a slow event while the event is young, and always
// for the first number of a blocked key.
const makeTarget = `
CREATE FUNCTION order_apply(k text, n bigint, received timestamptz, slow boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF k LIKE 'blocked%' AND n = 1 THEN
        RAISE EXCEPTION 'never' USING ERRCODE = 'check_violation';
    END IF;
    IF slow AND now() < received + interval '8 seconds' THEN
        RAISE EXCEPTION 'not yet' USING ERRCODE = 'lock_not_available';
    END IF;
    INSERT INTO drill_applied (route, event_id, stream, number) VALUES (CASE k WHEN 'plain' THEN k ELSE 'it' END, 'evt_' || k || '_' || n, k, n);
END $$`

const configuration = `
database: { work_connections: 6, queue_connections: 8 }
work: { lease: 3s, sweep_every: 1s, workers: 40 }
targets:
  it: %s
sources:
  stripe:
    provider: stripe
    secrets: [env:ORDER_SECRET]
    routes:
      - { name: it, types: [take], target: it, order: %s }
  beside:
    provider: stripe
    secrets: [env:ORDER_SECRET]
    routes:
      - { name: plain, types: [plain], target: it }
`

const sqlTarget = `{ kind: sql, statement: "SELECT order_apply(@key, @number, @received, @slow)",
    parameters: { key: body.key, number: body.number, received: event.received_at, slow: body.slow },
    timeout: 2s, retry: { attempts: 1000, base: 200ms, max: 1s } }`

const forwardTarget = `{ kind: forward, url: "http://%s/", idempotent: true, timeout: 2s, retry: { attempts: 1000, base: 200ms, max: 1s } }`

// newCampaign begins a variant.
func newCampaign(w *lab.World, o *options, v *variant) *campaign {
	sent, beside := ledger.NewSent(), sender.Stripe(secret, "")
	beside.Name = "beside"
	return &campaign{
		Campaign: lab.NewCampaign(w, fmt.Sprintf("order_%s_%d", v.name, os.Getpid()), nil, "ORDER_SECRET="+secret, "LOG_LEVEL=warn"),
		options:  *o, variant: *v, sent: sent,
		client: sender.Client{Ledger: sent, Sources: []sender.Source{sender.Stripe(secret, ""), beside}, HTTP: rig.NewClient(o.senders, 30*time.Second)},
	}
}

// run delivers the events, kills workers meanwhile, waits and checks.
func (c *campaign) run(ctx context.Context) (_ *result, err error) {
	defer func() {
		err = c.End(err, fmt.Sprintf("./scripts/order -variants %s -keys %d -events %d -workers %d -seed %d", c.variant.name, c.keys, c.events, c.options.workers, c.seed))
	}()
	random := rig.Random(c.seed, 0)
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	plan := c.deliveryOrder(random)
	deadlocks, err := c.Deadlocks()
	if err != nil {
		return nil, err
	}
	if c.variant.fair {
		if err := c.blockKeys(ctx); err != nil {
			return nil, err
		}
	}
	c.startedAt = time.Now()
	c.addEvents(plan)
	r := &result{variant: c.variant, sequences: c.sequences(), length: c.eventsPerSequence(), unordered: c.unorderedEvents(), deliveries: len(plan), seed: c.seed}
	killing, stop := context.WithCancel(ctx)
	defer stop()
	var killer sync.WaitGroup
	var killed error
	killer.Go(func() { killed = c.killWorkers(killing, rig.Random(c.seed, 1)) })
	var meddler sync.WaitGroup
	var held []rig.Violation
	var meddled error
	meddler.Go(func() { held, meddled = c.injectFault(killing) })
	err = c.deliverAll(ctx, plan)
	r.ingested = time.Since(c.startedAt)
	if err == nil && c.variant.fair {
		err = c.unblockKeys(ctx)
	}
	if err == nil {
		err = c.startWorkers(ctx)
	}
	if err == nil {
		err = c.waitForEffects(ctx)
	}
	r.elapsed = time.Since(c.startedAt)
	stop()
	killer.Wait()
	meddler.Wait()
	if err := errors.Join(err, killed, meddled); err != nil {
		return nil, err
	}
	r.violations, r.kills = held, c.kills
	if r.heldRunnable, err = c.heldRunnable(ctx); err != nil {
		return nil, err
	}
	if r.deadlocks, err = c.Deadlocks(); err != nil {
		return nil, err
	}
	r.deadlocks -= deadlocks
	if err := c.check(ctx, r); err != nil {
		return nil, err
	}
	r.fault += c.describeFault()
	return r, nil
}

// prepare makes the schema and the target and starts the processes.
func (c *campaign) prepare(ctx context.Context) error {
	if c.variant.jump {
		var err error
		if c.clock, err = lab.NewDatabaseClock(ctx, c.DSN()); err != nil {
			return err
		}
		c.OnEnd(func() error { return c.clock.Close(context.WithoutCancel(ctx)) })
	}
	workers := strconv.Itoa(c.options.workers)
	if err := c.Prepare(ctx, invariant.MakeTable, makeTarget, strings.ReplaceAll(c.variant.target, "WORKERS", workers), c.variant.plant); err != nil {
		return err
	}
	c.OnEnd(func() error { return c.DropSchema(context.WithoutCancel(ctx), c.DB) })
	target := sqlTarget
	if c.variant.forward {
		c.external = newExternalTarget()
		address, err := c.Target(c.external)
		if err != nil {
			return err
		}
		target = fmt.Sprintf(forwardTarget, address)
	}
	if err := c.Configure(configuration, target, c.variant.order()); err != nil {
		return err
	}
	if err := c.startReceivers(ctx); err != nil {
		return err
	}
	return c.startWorkers(ctx)
}

// startReceivers starts the receiver, and in the variant arrival a second one that gets every answer about the clock late.
func (c *campaign) startReceivers(ctx context.Context) error {
	dsns := []string{""}
	if c.variant.arrival {
		slow, dsn, err := c.Proxy("", readClock)
		if err != nil {
			return err
		}
		slow.SlowAnswers(readClock, clockAnswerAfter)
		dsns = append(dsns, dsn)
	}
	for _, dsn := range dsns {
		p, err := c.serve(ctx, "receive", dsn, "")
		if err != nil {
			return err
		}
		c.receivers = append(c.receivers, p)
	}
	return nil
}

// startWorkers starts the workers that are not there yet.
func (c *campaign) startWorkers(ctx context.Context) error {
	for len(c.workers) < c.options.workers {
		p, err := c.serve(ctx, "work", "", c.variant.failpoint())
		if err != nil {
			return err
		}
		c.workers = append(c.workers, p)
	}
	return nil
}

// serve starts a node in one role, with a fail point if one is named, and waits until it is ready. dsn is how the node
// reaches PostgreSQL; empty is directly.
func (c *campaign) serve(ctx context.Context, role, dsn, failpoint string) (*rig.Node, error) {
	return c.Serve(ctx, rig.NodeConfig{Name: role, Role: role, DSN: dsn, Failpoint: failpoint})
}

// killWorkers kills one random worker after another and replaces each, until ctx ends.
func (c *campaign) killWorkers(ctx context.Context, random *rand.Rand) error {
	for c.killEvery > 0 && c.killsWorkers() {
		if !rig.Pause(ctx, time.Duration(random.Int64N(int64(2*c.killEvery))+1)) {
			return nil
		}
		i := random.IntN(len(c.workers))
		if err := c.workers[i].Kill(); err != nil {
			return err
		}
		c.kills++
		// ctx only ends the killing: a worker that is being started is still waited for.
		p, err := c.serve(context.WithoutCancel(ctx), "work", "", "")
		if err != nil {
			return err
		}
		c.workers[i] = p
	}
	return nil
}

// killsWorkers reports whether workers are killed at random. Where places in the queue are compared, all workers take part.
func (c *campaign) killsWorkers() bool {
	return !c.variant.unlocked && !c.variant.fair && !c.variant.latest && !c.variant.jump
}

const countUnsettled = `
SELECT count(*), coalesce(sum(attempts), 0) FROM effect WHERE state NOT IN ('done', 'superseded', 'skipped', 'duplicate')`

// waitForEffects waits until all effects are settled, or until there was no progress for the standstill limit.
func (c *campaign) waitForEffects(ctx context.Context) error {
	var last [2]int
	for still := time.Duration(0); still < c.standstillLimit; still += 200 * time.Millisecond {
		var now [2]int
		if err := c.DB.QueryRow(ctx, countUnsettled).Scan(&now[0], &now[1]); err != nil {
			return fmt.Errorf("waiting for the effects: %w", err)
		}
		if now[0] == 0 {
			return nil
		}
		if now != last {
			last, still = now, 0
		}
		if !rig.Pause(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}
