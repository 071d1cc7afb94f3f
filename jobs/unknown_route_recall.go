package jobs

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/internal/sleep"
)

// recallAgain is how long after its start a process recalls a second time. By then every other
// process has read that this one knows its routes, and puts off no further effects of them.
const recallAgain = node.Heartbeat + 5*time.Second

// recallUnknown makes effects due that were put off while no process knew their routes, so that
// they do not wait for the end of a long pause. The sweeper finds the effects that it misses.
func (c *Client) recallUnknown() {
	for pass := range 2 {
		if pass > 0 && sleep.For(c.stopping, recallAgain) != nil {
			return
		}
		c.recall(c.store.RecallStrays, "effects whose routes are known again are due", "recalling effects whose routes are known again")
	}
}

// The jobs sleep for as long as their effects were put off. The statement makes them available now,
// to processes that know the routes.
const wakeRecalled = `
UPDATE river_job j SET state = 'available', scheduled_at = now(), kind = '` + handedPrefix + `' || a.route
FROM unnest($1::bigint[], $2::int[]) AS a (id, route)
WHERE j.id = a.id AND j.state IN ('available', 'scheduled') AND j.scheduled_at > now()`

func (c *Client) wakeRecalled(ctx context.Context, jobs []int64, routes []int32) error {
	var b pgx.Batch
	b.Queue(wakeRecalled, jobs, routes)
	b.Queue(notifyWorkers)
	return c.cfg.Pool.SendBatch(ctx, &b).Close()
}
