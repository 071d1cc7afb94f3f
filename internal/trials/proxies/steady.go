package proxies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

const (
	// senders deliver at the same time, each with a pause after each delivery.
	senders     = 8
	senderPause = 40 * time.Millisecond

	// settled is how long a phase lasts after what it does.
	settled = 3 * time.Second

	// calm is the name of the first phase, in which nothing is done.
	calm = "nothing"
)

// fault disturbs the proxy or the receivers during a phase.
type fault struct {
	name string
	do   func(ctx context.Context) error
}

// faults are the phases of the steady deliveries in their order.
func (c *campaign) faults() []fault {
	list := []fault{
		{calm, func(ctx context.Context) error { rig.Pause(ctx, 2*settled); return ctx.Err() }},
		{"the proxy reloads five times", c.reloadProxy},
		{"the proxy is stopped and started", c.restartProxy},
	}
	for i := range 2 {
		list = append(list, fault{fmt.Sprintf("receiver %d is drained and started", i+1), func(ctx context.Context) error { return c.restart(ctx, i) }})
	}
	return append(list, fault{"receiver 1 is killed and started", func(ctx context.Context) error { return c.kill(ctx, 0) }})
}

// steady delivers all the time while the faults happen.
func (c *campaign) steady(ctx context.Context) error {
	delivering, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	failed := make(chan error, senders)
	c.enter(calm)
	for sender := range senders {
		random := rig.Random(c.options.Seed, uint64(sender))
		client := c.newClient(sender%2 == 0)
		all.Go(func() {
			defer client.CloseIdleConnections()
			for n := 0; delivering.Err() == nil; n++ {
				if err := c.deliver(ctx, client, fmt.Sprintf("steady-%d-%d", sender, n), random); err != nil {
					failed <- err
					return
				}
				rig.Pause(delivering, senderPause)
			}
		})
	}
	var errs []error
	for _, f := range c.faults() {
		c.enter(f.name)
		if err := f.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
			break
		}
		rig.Pause(ctx, settled)
	}
	stop()
	all.Wait()
	close(failed)
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// enter begins a phase.
func (c *campaign) enter(name string) {
	c.Progress("%s", name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.phases) == 0 || c.phases[len(c.phases)-1].Name != name {
		c.phases = append(c.phases, Phase{Name: name, Failed: map[string]int{}})
	}
}

// deliver sends a delivery until it is acknowledged.
func (c *campaign) deliver(ctx context.Context, client *http.Client, id string, random *rand.Rand) error {
	size := 200 + random.IntN(4<<10)
	if random.IntN(20) == 0 {
		size = random.IntN(600 << 10)
	}
	body := push(size)
	c.mu.Lock()
	c.phases[len(c.phases)-1].Deliveries++
	sent := &Delivery{SHA: sha256.Sum256(body)}
	c.deliveries[id] = sent
	c.mu.Unlock()
	first := true
	return rig.Poll(ctx, 200*time.Millisecond, patience, "an acknowledgement of "+id, func() (bool, error) {
		a := send(ctx, client, request{method: http.MethodPost, url: c.url() + "/in/push", header: pushHeader(secret, id, body), body: bytes.NewReader(body), length: int64(len(body))})
		c.mu.Lock()
		defer c.mu.Unlock()
		sent.count(a)
		if first && !a.acknowledged() {
			c.phases[len(c.phases)-1].Failed[failure(a)]++ // the phase in which it failed
		}
		first = false
		return a.acknowledged(), nil
	})
}

func (d *Delivery) count(a answer) {
	switch {
	case a.acknowledged():
		d.Acknowledged++
		if a.receipt == "recorded" {
			d.Recorded++
		}
	case a.status/100 == 4:
		d.Refused++
	}
}

// failure names how an attempt failed, in few words.
func failure(a answer) string {
	switch {
	case a.status > 0:
		return fmt.Sprint(a.status)
	case errors.Is(a.err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(a.err, io.EOF):
		return "connection closed"
	case errors.Is(a.err, syscall.ECONNRESET), errors.Is(a.err, syscall.EPIPE):
		return "connection reset"
	default:
		return a.err.Error()
	}
}

func (c *campaign) reloadProxy(ctx context.Context) error {
	for range 5 {
		if err := c.proxy.reload(ctx, c.places, c.running); err != nil {
			return err
		}
		rig.Pause(ctx, time.Second)
	}
	return ctx.Err()
}

func (c *campaign) restartProxy(ctx context.Context) (err error) {
	if err := c.proxy.end(c.running); err != nil {
		return err
	}
	c.running, err = c.proxy.start(ctx, c.places)
	return err
}

// restart drains a receiver and starts it again.
func (c *campaign) restart(ctx context.Context, i int) (err error) {
	r := c.receivers[i]
	if err := errors.Join(r.node.Stop(time.Minute), r.node.Err()); err != nil {
		return err
	}
	r.node, err = c.Serve(ctx, r.cfg)
	return err
}

func (c *campaign) kill(ctx context.Context, i int) (err error) {
	r := c.receivers[i]
	if err := r.node.Kill(); err != nil {
		return err
	}
	rig.Pause(ctx, settled)
	r.node, err = c.Serve(ctx, r.cfg)
	return err
}
