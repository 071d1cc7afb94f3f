package main

import (
	"context"
	"fmt"
	"time"
)

// stormParts are parts of a round that reseal, erase and prune at the same time. Their commands are killed and run
// again.
func (o *operator) stormParts(context.Context) []func(context.Context) error {
	o.mu.Lock()
	o.counts["reseal, erase and prune at once"]++
	o.mu.Unlock()
	part := func(i int, do func(*operator, context.Context) error) func(context.Context) error {
		mine := &operator{campaign: o.campaign, name: fmt.Sprintf("storm-%d", i), random: o.campaign.randomFor(o.round, 210+i), round: o.round}
		return func(ctx context.Context) error { return do(mine, ctx) }
	}
	killed := func(o *operator, ctx context.Context, h commandOptions, args ...string) error {
		if _, err := o.runKilled(ctx, h, args...); err != nil {
			return err
		}
		_, err := o.runCommand(ctx, h, &struct{}{}, args...)
		return err
	}
	return []func(context.Context) error{
		part(0, func(o *operator, ctx context.Context) error {
			if o.keyring() == "" {
				return nil
			}
			return killed(o, ctx, commandOptions{kind: "keys reseal"}, "keys", "reseal", "--wait", "1s")
		}),
		part(1, func(o *operator, ctx context.Context) error {
			keys, err := o.drawIDs(ctx, 4, erasable)
			if err != nil {
				return err
			}
			for i, key := range keys {
				if err := o.eraseKey(ctx, key, i%2 == 0); err != nil {
					return err
				}
				if i%2 == 0 {
					err = o.eraseKey(ctx, key, false) // a killed command is run again
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
		part(2, func(o *operator, ctx context.Context) error {
			h := commandOptions{kind: "prune --include", decides: true, confirms: true}
			err := killed(o, ctx, h, "prune", "--include", "dead,indeterminate,held,replay")
			if err != nil {
				return err
			}
			last := o.allActs()[len(o.allActs())-1]
			return o.findGone(ctx, o.prunable, span{last.Started, time.Now()}, "prune in a storm")
		}),
	}
}
