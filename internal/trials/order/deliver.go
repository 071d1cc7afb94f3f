package main

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// deliverAll delivers everything, each event until it is acknowledged.
func (c *campaign) deliverAll(ctx context.Context, plan []delivery) error {
	send := func(ctx context.Context, n int) error { return c.deliver(ctx, plan[n]) }
	count := len(plan)
	switch {
	case c.variant.arrival:
		// One sender for each key, which waits for each answer.
		count, send = c.sequences(), c.deliverInTurn
	case c.variant.latest, c.variant.jump:
		send = func(ctx context.Context, n int) error {
			if err := c.pace(ctx, n); err != nil {
				return err
			}
			return c.deliver(ctx, plan[n])
		}
	}
	err := rig.SendEach(ctx, count, c.senders, send)
	if err != nil {
		return fmt.Errorf("delivering: %w", err)
	}
	return nil
}

// addEvents adds the events of deliveries to the ledger.
func (c *campaign) addEvents(plan []delivery) {
	added := map[delivery]bool{}
	for _, d := range plan {
		if added[d] {
			continue
		}
		added[d] = true
		e := ledger.Event{ID: d.id(), Source: "stripe", Type: "leave", Stream: d.key, Number: d.number}
		switch {
		case d.key == unordered:
			e.Source, e.Type = "beside", "plain"
		case c.variant.takes(d.number):
			e.Type = "take"
		}
		e.Body = fmt.Appendf(nil, `{"id":%q,"object":"event","created":%d,"type":%q,"key":%q,"number":%d,"slow":%t}`,
			e.ID, c.startedAt.Unix(), e.Type, d.key, d.number, c.variant.slow && d.number%37 == 5)
		c.sent.Add(e)
	}
}

// deliver sends one event until it is acknowledged.
func (c *campaign) deliver(ctx context.Context, d delivery) error {
	return c.client.DeliverUntil(ctx, 2*time.Minute, d.id(), func() string { return c.receivers[d.number%len(c.receivers)].Public })
}
