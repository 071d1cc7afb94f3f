package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// step is what happens in one cycle.
type step string

const (
	killRandom   step = "kill the binary"
	killPostgres step = "kill PostgreSQL"
	killBoth     step = "kill the binary and PostgreSQL"
	cutBefore    step = "cut the gate off before COMMIT"
	cutAfter     step = "cut the gate off after COMMIT"
	silence      step = "silence the connections"
	// The following are fail points of the binary.
	beforeCommit step = "gate-before-commit"
	afterCommit  step = "gate-after-commit"
	beforeSend   step = "work-before-send"
	afterSend    step = "work-after-send"
	ackEarly     step = "gate-ack-early"
	asynchronous step = "gate-asynchronous"
)

// steps are the steps of one round. Each round has them in another random order, so that even a short campaign has each
// of them.
var steps = []step{
	killRandom, beforeCommit, killPostgres, afterCommit, killRandom, beforeSend, killBoth, afterSend, killRandom, killPostgres,
	cutBefore, cutAfter, silence,
}

// plan returns the steps of the campaign, and one more that is never taken.
func (c *Campaign) plan() []step {
	all := steps
	switch {
	case c.options.Defect == AckBeforeCommit:
		all = []step{killRandom}
	case c.options.Defect == AsynchronousCommit, c.options.KillPostgresOnly:
		all = []step{killPostgres}
	}
	draw := rig.Rounds(c.random, all)
	var out []step
	for range c.options.Cycles {
		out = append(out, draw())
	}
	return append(out, killRandom)
}

// failpoint is the fail point that the binary is started with for a step.
func (c *Campaign) failpoint(s step) string {
	switch c.options.Defect {
	case AckBeforeCommit:
		return string(ackEarly) + ":1"
	case AsynchronousCommit:
		return string(asynchronous) + ":1"
	}
	switch s {
	case beforeCommit, afterCommit, beforeSend, afterSend:
		return fmt.Sprintf("%s:%d", s, 1+c.random.IntN(60))
	default:
		return ""
	}
}

// startNode starts the binary as the next step needs it, and waits until it is ready, or has ended at a fail point.
func (c *Campaign) startNode(ctx context.Context, next step) (err error) {
	c.summary.Starts++
	cfg := c.node
	cfg.Failpoint = c.failpoint(next)
	c.process, err = c.Serve(ctx, cfg)
	return err
}

// cycle takes a step and starts everything again.
func (c *Campaign) cycle(ctx context.Context, s, next step) error {
	load := time.Duration(150+c.random.IntN(500)) * time.Millisecond
	if c.options.Defect != "" {
		load += time.Second // so that there is much to lose
	}
	switch s {
	case killRandom:
		rig.Pause(ctx, load)
		c.stopSenders()
		c.summary.RandomKills++
		if err := c.process.Kill(); err != nil {
			return err
		}
	case killPostgres:
		rig.Pause(ctx, load)
		c.stopSenders()
		c.summary.PostgresKills++
		if err := c.restartPostgres(ctx); err != nil {
			return err
		}
		if done, err := c.expectRecovery(ctx, next); done || err != nil {
			return err
		}
	case cutBefore, cutAfter:
		if err := c.cutGateConnection(ctx, s); err != nil {
			return err
		}
		if done, err := c.expectRecovery(ctx, next); done || err != nil {
			return err
		}
	case silence:
		rig.Pause(ctx, load)
		c.summary.Silences++
		c.proxy.Silence()
		if done, err := c.expectRecovery(ctx, next); done || err != nil {
			return err
		}
	case killBoth:
		rig.Pause(ctx, load)
		c.stopSenders()
		c.summary.BothKills++
		if err := errors.Join(c.process.Kill(), c.restartPostgres(ctx)); err != nil {
			return err
		}
	case beforeCommit, afterCommit, beforeSend, afterSend, ackEarly, asynchronous:
		select {
		case <-c.process.Done():
			c.summary.FailpointKills++
		case <-ctx.Done():
		case <-time.After(time.Minute): // a busy machine commits only a few groups a second
			return fmt.Errorf("the fail point %s was not reached", c.process.Failpoint())
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.startNode(ctx, next)
}

// expectRecovery expects that the binary keeps running when it loses its connections, and becomes ready again by
// itself. If the next step needs a fail point, the binary is only stopped, and done is false.
func (c *Campaign) expectRecovery(ctx context.Context, next step) (done bool, err error) {
	if !c.process.Running() {
		return false, fmt.Errorf("the binary ended with its connections: %w: %s", c.process.Err(), c.process.Tail())
	}
	if c.failpoint(next) == "" {
		return true, c.process.WaitReady(ctx)
	}
	return false, c.process.Stop(30 * time.Second)
}

// cutGateConnection drops the gate's connection at the COMMIT of a group, so that the gate cannot know whether
// PostgreSQL has committed it.
func (c *Campaign) cutGateConnection(ctx context.Context, s step) error {
	where := rig.CutBefore
	if s == cutAfter {
		where = rig.CutAfter
	}
	select {
	case <-c.proxy.CutNext(where, gatePool):
		c.summary.Cuts++
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(30 * time.Second):
		return fmt.Errorf("no group was committed, to be cut off")
	}
}

// restartPostgres kills PostgreSQL and starts it again.
func (c *Campaign) restartPostgres(ctx context.Context) error {
	if err := c.Server.Kill(); err != nil {
		return err
	}
	rig.Pause(ctx, time.Duration(c.random.IntN(200))*time.Millisecond)
	return c.Server.Restart(ctx)
}
