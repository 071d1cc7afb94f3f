package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// deliverAll delivers everything, each event until it is acknowledged.
func (c *campaign) deliverAll(ctx context.Context, plan []delivery) error {
	client := rig.NewClient(c.senders, 30*time.Second)
	err := rig.SendEach(ctx, len(plan), c.senders, func(ctx context.Context, n int) error { return c.deliver(ctx, client, plan[n]) })
	if err != nil {
		return fmt.Errorf("delivering: %w", err)
	}
	return nil
}

// deliver sends one event until it is acknowledged.
func (c *campaign) deliver(ctx context.Context, client *http.Client, d delivery) error {
	eventType := "leave"
	if c.variant.takes(d.number) {
		eventType = "take"
	}
	slow := c.variant.slow && d.number%37 == 5
	body := fmt.Appendf(nil, `{"id":"evt_%s_%d","object":"event","created":%d,"type":"%s","key":"%s","number":%d,"slow":%t}`,
		d.key, d.number, c.startedAt.Unix(), eventType, d.key, d.number, slow)
	for attempt := range 20 {
		status, err := rig.Deliver(ctx, client, c.receiver.SourceURL("stripe"), secret, body)
		if err != nil {
			return err
		}
		switch status {
		case http.StatusOK:
			return nil
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			rig.Pause(ctx, time.Duration(attempt+1)*50*time.Millisecond)
		default:
			return fmt.Errorf("event %s/%d was answered with %d", d.key, d.number, status)
		}
	}
	return fmt.Errorf("event %s/%d was never taken", d.key, d.number)
}
