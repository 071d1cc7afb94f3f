package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// breakThings makes one fault after the other until ctx ends, each round of them in another order. Every fault is
// finished before it returns, so that all processes run again.
func (d *drill) breakThings(ctx context.Context, random *rand.Rand) error {
	draw := rig.Rounds(random, d.options.Faults)
	for len(d.options.Faults) > 0 && rig.Pause(ctx, time.Duration(200+random.IntN(1300))*time.Millisecond) {
		fault := draw()
		n := d.stage.nodes[random.IntN(len(d.stage.nodes))]
		// ctx only ends the loop: a process that is being started is still waited for.
		what, err := d.breakOne(context.WithoutCancel(ctx), random, fault, n)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", fault, n.Name, err)
		}
		if what != "" {
			d.faults[fault]++
			d.options.Log("%s", what)
		}
		if err := d.restartEnded(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// breakOne makes one fault and returns what it did. It returns nothing if the fault did not happen.
func (d *drill) breakOne(ctx context.Context, random *rand.Rand, fault Fault, n *node) (what string, err error) {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	switch fault {
	case Kill:
		if err := n.process.Kill(); err != nil {
			return "", err
		}
		rig.Pause(ctx, between(0, time.Second))
		return "killed " + n.Name, d.stage.start(ctx, n)
	case Cut:
		where, pool := rig.CutBefore, gatePool
		if random.IntN(2) == 0 {
			where = rig.CutAfter
		}
		if random.IntN(2) == 0 {
			pool = workPool
		}
		select {
		case <-n.proxy.CutNext(where, pool):
			return fmt.Sprintf("cut %s off %s (%s)", n.Name, where, pool), nil
		case <-time.After(5 * time.Second):
			n.proxy.CancelCut()
			return "", nil // nothing was committed
		}
	case Stall:
		length := between(200*time.Millisecond, 3*time.Second)
		n.proxy.Stall(length)
		rig.Pause(ctx, length)
		return fmt.Sprintf("stalled the connections of %s for %.1f s", n.Name, length.Seconds()), nil
	case Pause:
		length := between(200*time.Millisecond, 4*time.Second)
		if err := n.process.Pause(); err != nil {
			return "", err
		}
		rig.Pause(ctx, length)
		return fmt.Sprintf("paused %s for %.1f s", n.Name, length.Seconds()), n.process.Continue()
	}
	return "", fmt.Errorf("there is no fault %q", fault)
}

// restartEnded starts the processes again that have ended by themselves, and records that they did.
func (d *drill) restartEnded(ctx context.Context) error {
	for _, n := range d.stage.nodes {
		if n.process.Running() {
			continue
		}
		d.ended = append(d.ended, fmt.Sprintf("%s ended by itself: %v", n.Name, n.process.Err()))
		d.options.Log("%s ended by itself", n.Name)
		if err := d.stage.start(ctx, n); err != nil {
			return err
		}
	}
	return nil
}
