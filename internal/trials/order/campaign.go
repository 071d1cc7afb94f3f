package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// campaign is one variant. It has a schema of its own.
type campaign struct {
	options
	variant variant
	world   *rig.World

	schema string
	config string
	db     *pgx.Conn

	startedAt time.Time // also the time that every delivery of an event gives for it
	receiver  *rig.Node
	workers   []*rig.Node
	external  *externalTarget // nil if the target is inside the database
	target    *rig.Target     // serves external
	kills     int

	// What came of the variant's fault.
	vanishedHosts     int           // how many hosts vanished
	lockedFor         time.Duration // how long a stream was locked
	othersDone        int           // effects of other streams that were done meanwhile
	longestStandstill time.Duration // the longest time without progress of any other stream
}

// result is what a campaign found.
type result struct {
	variant              variant
	sequences, length    int
	deliveries, kills    int
	attempts, deadlocks  int
	heldRunnable         float64
	ingested, elapsed    time.Duration
	violations           []violation
	stuck, applied, seed uint64
	fault                string
}

// String is the result in one line.
func (r *result) String() string {
	verdict := "kept"
	if len(r.violations) > 0 {
		verdict = fmt.Sprintf("BROKEN in %d ways", len(r.violations))
	}
	return fmt.Sprintf("order %s: %s; %d keys of %d numbers in %d deliveries, %d workers killed; %d applied in %d attempts, %d stuck, "+
		"held found runnable %g, deadlocks %d%s; ingested in %.1f s, at rest after %.1f s (%.0f events/s); seed %d",
		r.variant.name, verdict, r.sequences, r.length, r.deliveries, r.kills, r.applied, r.attempts, r.stuck, r.heldRunnable, r.deadlocks, r.fault,
		r.ingested.Seconds(), r.elapsed.Seconds(), float64(r.sequences*r.length)/r.elapsed.Seconds(), r.seed)
}

// The target records what is applied, in the order of commits for each key, and fails for a slow event while the event
// is young. Nothing in it is unique.
const makeTarget = `
CREATE TABLE order_applied (place bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL, number bigint NOT NULL);
CREATE FUNCTION order_apply(k text, n bigint, received timestamptz, slow boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF slow AND now() < received + interval '8 seconds' THEN
        RAISE EXCEPTION 'not yet' USING ERRCODE = 'lock_not_available';
    END IF;
    INSERT INTO order_applied (key, number) VALUES (k, n);
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
      - { name: it, types: [take], target: it,
          order: { mode: contiguous, key: body.key, number: body.number, start: 1, patience: %s, on_gap: %s } }
`

const sqlTarget = `{ kind: sql, statement: "SELECT order_apply(@key, @number, @received, @slow)",
    parameters: { key: body.key, number: body.number, received: event.received_at, slow: body.slow },
    timeout: 2s, retry: { attempts: 1000, base: 200ms, max: 1s } }`

const forwardTarget = `{ kind: forward, url: "http://%s/", idempotent: true, timeout: 2s, retry: { attempts: 1000, base: 200ms, max: 1s } }`

// run delivers the events, kills workers meanwhile, waits and checks.
func (c *campaign) run(ctx context.Context) (_ *result, err error) {
	random := rig.Random(c.seed, 0)
	c.schema = fmt.Sprintf("order_%s_%d", c.variant.name, os.Getpid())
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close(context.WithoutCancel(ctx))) }()
	plan := c.deliveryOrder(random)
	deadlocks, err := c.world.Deadlocks()
	if err != nil {
		return nil, err
	}
	c.startedAt = time.Now()
	r := &result{variant: c.variant, sequences: c.sequences(), length: c.eventsPerSequence(), deliveries: len(plan), seed: c.seed}
	killing, stop := context.WithCancel(ctx)
	defer stop()
	var killer sync.WaitGroup
	var killed error
	killer.Go(func() { killed = c.killWorkers(killing, rig.Random(c.seed, 1)) })
	var meddler sync.WaitGroup
	var held []violation
	var meddled error
	meddler.Go(func() { held, meddled = c.injectFault(killing) })
	err = c.deliverAll(ctx, plan)
	r.ingested = time.Since(c.startedAt)
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
	r.violations, r.fault = held, c.describeFault()
	r.kills = c.kills
	if r.heldRunnable, err = c.heldRunnable(ctx); err != nil {
		return nil, err
	}
	if r.deadlocks, err = c.world.Deadlocks(); err != nil {
		return nil, err
	}
	r.deadlocks -= deadlocks
	return r, c.check(ctx, r)
}

// prepare makes the schema and the target and starts the processes.
func (c *campaign) prepare(ctx context.Context) error {
	var err error
	if c.db, err = c.world.Prepare(ctx, c.schema, makeTarget); err != nil {
		return err
	}
	target := sqlTarget
	if c.variant.forward {
		c.external = newExternalTarget()
		if c.target, err = rig.StartTarget(c.external); err != nil {
			return err
		}
		target = fmt.Sprintf(forwardTarget, c.target.Address)
	}
	text := fmt.Sprintf(configuration, target, c.variant.patience, c.variant.onGap)
	if c.config, err = c.world.WriteFile(c.schema+".yml", text); err != nil {
		return err
	}
	if c.receiver, err = c.serve(ctx, "receive", "", ""); err != nil {
		return err
	}
	for range c.options.workers {
		p, err := c.serve(ctx, "work", "", c.variant.failpoint())
		if err != nil {
			return err
		}
		c.workers = append(c.workers, p)
	}
	return nil
}

func (c *campaign) close(ctx context.Context) error {
	var errs []error
	if c.receiver != nil {
		errs = append(errs, c.receiver.Kill())
	}
	for _, p := range c.workers {
		errs = append(errs, p.Kill())
	}
	if c.target != nil {
		errs = append(errs, c.target.Close())
	}
	if c.db != nil {
		_, err := c.db.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{c.schema}.Sanitize()+" CASCADE")
		errs = append(errs, err, c.db.Close(ctx))
	}
	return errors.Join(errs...)
}

// killWorkers kills one random worker after another and replaces each, until ctx ends.
func (c *campaign) killWorkers(ctx context.Context, random *rand.Rand) error {
	for c.killEvery > 0 && !c.variant.defect {
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

const countUnsettled = `
SELECT count(*), coalesce(sum(attempts), 0) FROM effect WHERE state NOT IN ('done', 'superseded', 'skipped', 'duplicate')`

// waitForEffects waits until all effects are settled, or until there was no progress for the standstill limit.
func (c *campaign) waitForEffects(ctx context.Context) error {
	var last [2]int
	for still := time.Duration(0); still < c.standstillLimit; still += 200 * time.Millisecond {
		var now [2]int
		if err := c.db.QueryRow(ctx, countUnsettled).Scan(&now[0], &now[1]); err != nil {
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
