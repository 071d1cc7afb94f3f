package kills

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// longLease is long enough for the slowest machine: a worker that lives settles before it ends.
const longLease = "ONCEGATE_LEASE=60s"

const unsettledOf = `
SELECT count(*) FROM effect e JOIN inbox_event v ON v.id = e.event_id
WHERE v.event_id = ANY ($1) AND e.state IN ('pending', 'claimed', 'retry')`

// cutSendStart drops a worker's connection while it records that a send begins, either before PostgreSQL gets the
// statement or after it has run it. The worker lives and has sent nothing, so each effect must be sent once, and none
// may be indeterminate.
func (c *Campaign) cutSendStart(ctx context.Context, where rig.Cut) error {
	if err := c.replaceWorkers(ctx, longLease); err != nil {
		return err
	}
	events, err := c.deliverUntilCut(ctx, where, sendStartWord, Once)
	if err != nil {
		return err
	}
	for _, event := range events {
		c.neverInDoubt[event] = true
	}
	err = rig.Until(ctx, waitLimit, "the effects of the cut", func() (bool, error) {
		var left int
		err := c.DB.QueryRow(ctx, unsettledOf, events).Scan(&left)
		return left == 0, err
	})
	if err != nil {
		return err
	}
	return c.replaceWorkers(ctx)
}

// replaceWorkers stops both workers and starts others with more settings.
func (c *Campaign) replaceWorkers(ctx context.Context, settings ...string) error {
	for _, s := range c.slots {
		if err := s.worker.Stop(30 * time.Second); err != nil {
			return err
		}
		if err := c.startWorker(ctx, s, "", settings...); err != nil {
			return err
		}
	}
	return nil
}
