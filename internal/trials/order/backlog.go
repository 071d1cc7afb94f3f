package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// unordered is the key of the events of the route without order. Their numbers only tell them apart.
const unordered = "plain"

// deliveryOrderMixed mixes the ordered events evenly into the unordered ones: in the variant fair into the first third of them,
// otherwise into all.
func (c *campaign) deliveryOrderMixed() []delivery {
	var out []delivery
	ordered := c.sequences() * c.eventsPerSequence()
	among := c.unorderedEvents()
	if c.variant.fair {
		among /= 3
	}
	for i, next := 1, 0; i <= c.unorderedEvents(); i++ {
		out = append(out, delivery{unordered, i})
		for ; next < min(ordered*i/among, ordered); next++ {
			out = append(out, delivery{"k" + strconv.Itoa(next%c.sequences()), 1 + next/c.sequences()})
		}
	}
	return out
}

// blockedPrefix begins the keys whose first number always fails.
const blockedPrefix = "blocked"

// blockedLength is how many events a blocked key has. The others wait for the first one, and then run one after another.
const blockedLength = 4

// blockedKeys counts the keys of the variant fair whose first number always fails.
func (c *campaign) blockedKeys() int {
	if c.variant.fair {
		return 8
	}
	return 0
}

const countHeld = `SELECT (SELECT count(*) FROM effect WHERE state = 'held'), (SELECT count(*) FROM stream WHERE blocked_by IS NOT NULL)`

// blockKeys delivers the events of keys whose first number always fails, waits until their other effects are held, and ends the
// workers. All later deliveries have later places in the queue.
func (c *campaign) blockKeys(ctx context.Context) error {
	var plan []delivery
	for k := range c.blockedKeys() {
		for n := range blockedLength {
			plan = append(plan, delivery{blockedPrefix + strconv.Itoa(k), n + 1})
		}
	}
	c.addEvents(plan)
	for _, d := range plan {
		if err := c.deliver(ctx, d); err != nil {
			return err
		}
	}
	err := rig.Until(ctx, time.Minute, "the blocked effects to be held", func() (bool, error) {
		var held, blocked int
		err := c.DB.QueryRow(ctx, countHeld).Scan(&held, &blocked)
		return blocked == c.blockedKeys() && held == blocked*(blockedLength-1), err
	})
	for _, p := range c.workers {
		err = errors.Join(err, p.Stop(30*time.Second))
	}
	c.workers = nil
	return err
}

// unblockKeys skips the numbers that fail with the command that an operator uses.
func (c *campaign) unblockKeys(ctx context.Context) error {
	for k := range c.blockedKeys() {
		ran, err := c.RunCommand(ctx, time.Minute, nil, "streams", "skip", "stripe/it/"+blockedPrefix+strconv.Itoa(k), "--reason", "never", "--yes")
		if err != nil || ran.ExitCode != 0 {
			return errors.Join(err, fmt.Errorf("skipping a number: exit %d: %s", ran.ExitCode, ran.Stderr))
		}
	}
	return nil
}

// unorderedEvents is how many events without order there are.
func (c *campaign) unorderedEvents() int {
	if c.variant.mixed {
		return c.options.unordered
	}
	return 0
}

// backlog is the number of effects that wait in the variant latest.
func (c *campaign) backlog() int { return c.unorderedEvents() * 3 / 8 }

const countDone = `SELECT count(*) FROM effect WHERE state IN ('done', 'superseded')`

// pace waits before the n-th delivery. In the variant latest, the workers begin when there is a backlog, and from then on as much is
// delivered as is done. In the variant jump, the deliveries take a little longer than the jump.
func (c *campaign) pace(ctx context.Context, n int) error {
	if c.variant.jump {
		rig.Pause(ctx, time.Until(c.startedAt.Add(time.Duration(n)*(c.options.jump+4*time.Second)/time.Duration(c.unorderedEvents()))))
		return ctx.Err()
	}
	c.pacing.Lock()
	defer c.pacing.Unlock()
	switch {
	case n == 0:
		for _, p := range c.workers {
			if err := p.Pause(); err != nil {
				return err
			}
		}
	case n == c.backlog():
		for _, p := range c.workers {
			if err := p.Continue(); err != nil {
				return err
			}
		}
	}
	for n > c.backlog() && n-c.done >= c.backlog() {
		if err := c.DB.QueryRow(ctx, countDone).Scan(&c.done); err != nil {
			return fmt.Errorf("counting what is done: %w", err)
		}
		if n-c.done >= c.backlog() && !rig.Pause(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}
