package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// deliverAll delivers everything, each event until it is acknowledged.
func (c *campaign) deliverAll(ctx context.Context, plan []delivery) error {
	client := rig.NewClient(c.senders, 30*time.Second)
	send := func(ctx context.Context, n int) error { return c.deliver(ctx, client, plan[n]) }
	count := len(plan)
	switch {
	case c.variant.arrival:
		// One sender for each key, which waits for each answer.
		count, send = c.sequences(), func(ctx context.Context, k int) error { return c.deliverInTurn(ctx, client, k) }
	case c.variant.latest, c.variant.jump:
		send = func(ctx context.Context, n int) error {
			if err := c.pace(ctx, n); err != nil {
				return err
			}
			return c.deliver(ctx, client, plan[n])
		}
	}
	err := rig.SendEach(ctx, count, c.senders, send)
	if err != nil {
		return fmt.Errorf("delivering: %w", err)
	}
	return nil
}

// deliver sends one event until it is acknowledged.
func (c *campaign) deliver(ctx context.Context, client *http.Client, d delivery) error {
	source, eventType := "stripe", "leave"
	switch {
	case d.key == unordered:
		source, eventType = "beside", "plain"
	case c.variant.takes(d.number):
		eventType = "take"
	}
	slow := c.variant.slow && d.number%37 == 5
	body := fmt.Appendf(nil, `{"id":"evt_%s_%d","object":"event","created":%d,"type":"%s","key":"%s","number":%d,"slow":%t}`,
		d.key, d.number, c.startedAt.Unix(), eventType, d.key, d.number, slow)
	for attempt := range 100 {
		receiver := c.receivers[d.number%len(c.receivers)]
		status, err := rig.Deliver(ctx, client, receiver.SourceURL(source), secret, body)
		if err != nil {
			return err
		}
		switch status {
		case http.StatusOK:
			return nil
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			rig.Pause(ctx, min(time.Duration(attempt+1)*50*time.Millisecond, time.Second))
		default:
			return fmt.Errorf("event %s/%d was answered with %d", d.key, d.number, status)
		}
	}
	return fmt.Errorf("event %s/%d was never taken", d.key, d.number)
}
