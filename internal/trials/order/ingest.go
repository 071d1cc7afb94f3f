package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// ingest delivers everything, each until it is acknowledged.
func (c *campaign) ingest(ctx context.Context, plan []delivery) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: c.ingesters}}
	next := make(chan delivery)
	var senders sync.WaitGroup
	for range c.ingesters {
		senders.Go(func() {
			for d := range next {
				if err := c.deliver(ctx, client, d); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, d := range plan {
		select {
		case next <- d:
		case <-ctx.Done():
		}
	}
	close(next)
	senders.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("delivering: %w", context.Cause(ctx))
	}
	return nil
}

// deliver sends one event, again and again if it has to.
func (c *campaign) deliver(ctx context.Context, client *http.Client, d delivery) error {
	eventType := "leave"
	if c.variant.taken(d.number) {
		eventType = "take"
	}
	slow := c.variant.slow && d.number%37 == 5
	body := fmt.Appendf(nil, `{"id":"evt_%s_%d","object":"event","created":%d,"type":"%s","key":"%s","number":%d,"slow":%t}`,
		d.key, d.number, c.began.Unix(), eventType, d.key, d.number, slow)
	for attempt := range 20 {
		status, err := rig.Deliver(ctx, client, "http://"+c.receiver.public+"/in/stripe", secret, body)
		if err != nil {
			return err
		}
		switch status {
		case http.StatusOK:
			return nil
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			time.Sleep(time.Duration(attempt+1) * 50 * time.Millisecond) //nolint:forbidigo // a sender's pause
		default:
			return fmt.Errorf("event %s/%d was answered with %d", d.key, d.number, status)
		}
	}
	return fmt.Errorf("event %s/%d was never taken", d.key, d.number)
}
