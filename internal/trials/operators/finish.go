package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// waitLimit is how long everything may take to come to rest.
const waitLimit = 90 * time.Second

const countMoving = `
SELECT (SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry')) + (SELECT count(*) FROM replay WHERE state = 'running')
    + (SELECT count(*) FROM effect e LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
       WHERE e.state = 'held' AND ` + heldByNothing + `)`

const heldByNothing = `
coalesce(e.reason, '') NOT IN ('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken', 'sequence_time_ahead')
AND s.blocked_by IS NULL AND s.gap_since IS NULL`

// checkAtEnd lets everything come to rest under the whole configuration, and makes the checks that need that.
func (c *campaign) checkAtEnd(ctx context.Context) error {
	c.ledger.endFaults()
	for _, s := range c.servers {
		if err := c.restart(ctx, s, variants[0], false); err != nil {
			return err
		}
	}
	err := rig.Until(ctx, waitLimit, "everything to come to rest", func() (bool, error) {
		var left int
		err := c.db.QueryRow(ctx, countMoving).Scan(&left)
		return left == 0, err
	})
	if err != nil && !errors.Is(err, rig.ErrTimeout) { // after a timeout, the check reports the effects that still move
		return err
	}
	if err := c.observe(ctx); err != nil {
		return err
	}
	for _, check := range []func(context.Context) error{c.compareEffects, c.compareAcknowledged, c.checkReplays, c.stopServers, c.readServerLogs, c.compareBacklogs, c.openSealed, c.checkPruned, c.checkResealed} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return c.checkLeaks(ctx, true)
}

func (c *campaign) stopServers(context.Context) error {
	var errs []error
	for _, s := range c.servers {
		byItself, err := s.stop(false)
		if byItself {
			c.violate(rig.NewViolation(crashed, "server %d ended by itself", s.number))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// compareBacklogs compares what `routes list` counts with the rows, while nothing moves.
func (c *campaign) compareBacklogs(ctx context.Context) error {
	var told read.Page[read.RouteBacklog]
	o := &operator{campaign: c, name: "end", random: c.randomFor(0, 223)}
	if err := o.mustRun(ctx, "routes list", &told, "routes", "list"); err != nil {
		return err
	}
	rows, err := rig.CountBy(ctx, c.db, `
SELECT s.name || '/' || r.name || ' ' || e.state, count(*) FROM effect e JOIN route r ON r.id = e.route_id JOIN source s ON s.id = r.source_id GROUP BY 1`)
	if err != nil {
		return err
	}
	for _, r := range told.Data {
		for state, n := range map[string]int{"dead": r.Dead, "indeterminate": r.Indeterminate, "claimed": r.Claimed} {
			c.violate(compareCount(fmt.Sprintf("routes list, effects of %s/%s that are %s", r.Source, r.Route, state), int64(n), int64(rows[r.Source+"/"+r.Route+" "+state]))...)
		}
	}
	return nil
}
