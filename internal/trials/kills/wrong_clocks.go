package kills

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// How far the clocks are wrong, as fail points of the binary.
const (
	clockAhead  = "clock:7200"
	clockBehind = "clock:-600"
)

// skewClocks starts a worker and the receiver with wrong clocks, and has the other worker hold requests. Leases and
// signatures are judged by PostgreSQL's time, so neither clock may end a lease early or refuse a delivery. Both nodes
// must report that they are not ready.
func (c *Campaign) skewClocks(ctx context.Context, route Route) error {
	s := c.slots[c.random.IntN(len(c.slots))]
	err := errors.Join(s.worker.Stop(30*time.Second), c.receiver.Stop(30*time.Second))
	if err == nil {
		err = errors.Join(c.startWorker(ctx, s, clockAhead), c.startReceiver(ctx, clockBehind))
	}
	for elsewhere := 0; elsewhere < 2 && err == nil; {
		event := c.newEvent(route, false)
		c.script.on(event, holdRead)
		var h *heldRequest
		if h, err = c.deliverUntilHeld(ctx, event); err != nil {
			break
		}
		if h.slot != s.number {
			elsewhere++
			rig.Pause(ctx, lease/2) // in which the wrong clock sweeps
		}
		h.release <- true
	}
	if err != nil {
		return err
	}
	if err := errors.Join(s.worker.Stop(30*time.Second), c.receiver.Stop(30*time.Second)); err != nil {
		return err
	}
	return errors.Join(c.startWorker(ctx, s, ""), c.startReceiver(ctx, ""))
}

// wrongDatabase sets the clocks of the receiver and the senders 10 minutes behind PostgreSQL's, so that PostgreSQL's
// clock looks wrong to them. No genuine delivery may be refused because of its time. Each is answered 503, and
// accepted once the clocks agree again.
func (c *Campaign) wrongDatabase(ctx context.Context, route Route) error {
	if err := errors.Join(c.receiver.Stop(30*time.Second), c.startReceiver(ctx, clockBehind)); err != nil {
		return err
	}
	var events []string
	for range 20 {
		event := c.newEvent(route, false)
		events = append(events, event)
		if a := c.client.DeliverSigned(ctx, c.receiver.Public, event, time.Now().Add(-10*time.Minute)); a.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("a genuine delivery was answered %d while the database's clock is wrong, not 503", a.Status)
		}
	}
	if err := errors.Join(c.receiver.Stop(30*time.Second), c.startReceiver(ctx, "")); err != nil {
		return err
	}
	for _, event := range events {
		if err := c.deliver(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// waitForClockAlarm waits until a node listens and reports that its clock is wrong.
func (c *Campaign) waitForClockAlarm(ctx context.Context, n *rig.Node) error {
	if err := n.WaitListening(ctx, n.Admin); err != nil {
		return err
	}
	return rig.Until(ctx, waitLimit, "the alarm about the clock", func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		if resp, err := c.client.HTTP.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		return n.Logged("not ready", `"clock"`)
	})
}
