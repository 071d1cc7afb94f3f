package calls

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// callers is how many make one call at the same instant.
const callers = 100

// storm has a hundred callers make one call at once, with either secret and at both nodes. While its effect is under way at the target, a
// node is killed and comes back with rotated secrets. Another credential asks all the time for more new keys than it may
// have. The callers' own credential has a quota of one new key for each storm.
func (c *Campaign) storm(ctx context.Context, number int) error {
	intent := fmt.Sprintf("storm-%d", number)
	k := &call{operation: "charge", key: "the-key-of-" + intent, intent: intent, body: body(intent, "100", "first")}
	h := c.sinks.holdNext(intent)
	var once sync.Once
	release := func() { once.Do(func() { close(h.release) }) }
	defer release()

	flooding, stop := context.WithCancel(ctx)
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		c.flood(flooding, number)
	}()
	defer func() {
		stop()
		<-flooded
	}()

	group, ctx := errgroup.WithContext(ctx)
	begin := make(chan struct{})
	for range callers {
		group.Go(func() error {
			<-begin
			a, err := c.make(ctx, c.sparing, k)
			if err != nil {
				return err
			}
			c.answered(c.sparing, k, a)
			return nil
		})
	}
	group.Go(func() error {
		select {
		case <-h.arrived:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := c.restart(ctx, c.nodes[number%len(c.nodes)]); err != nil {
			return err
		}
		release()
		return nil
	})
	c.expect(c.sparing, k, callers)
	close(begin)
	return group.Wait()
}

// flood asks for new keys under the credential that has none left, until ctx ends. The keys that it is refused must not be spent.
func (c *Campaign) flood(ctx context.Context, number int) {
	for i := 0; ctx.Err() == nil; i++ {
		intent := fmt.Sprintf("flood-%d-%d", number, i)
		k := &call{operation: "charge", key: "the-key-of-" + intent, intent: intent, body: body(intent, "1", "first")}
		if a, err := c.once(ctx, c.greedy, k, i%len(c.nodes)); err == nil {
			c.flooded(k, a)
		}
		rig.Pause(ctx, 0)
	}
}
