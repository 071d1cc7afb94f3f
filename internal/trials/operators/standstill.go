package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// standstillAfter is how long an effect may be under way without a request. A claim of a killed server ends after 4 s,
// and an attempt after 1 s.
const standstillAfter = 60 * time.Second

// The route extra is not in every configuration, so that its effects may wait for a server that has it.
const readUnderWay = `
SELECT e.id::text FROM effect e JOIN route r ON r.id = e.route_id
WHERE e.state IN ('pending', 'claimed', 'retry') AND r.name <> 'extra'`

// checkStandstill looks for effects that are under way and that no server carries out, after each round. Without it,
// only the end of a long campaign would show them.
func (c *campaign) checkStandstill(ctx context.Context) error {
	rows, err := c.db.Query(ctx, readUnderWay)
	if err != nil {
		return fmt.Errorf("reading the effects that are under way: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("reading the effects that are under way: %w", err)
	}
	now := time.Now()
	underWay := make(map[string]standstill, len(ids))
	for _, id := range ids {
		if h := c.histories[id]; h != nil {
			underWay[id] = c.underWay[id].next(len(h.requests), now)
			c.violate(underWay[id].judge(h, now)...)
		}
	}
	c.underWay = underWay
	return nil
}

// standstill says since when an effect has been under way without a new request.
type standstill struct {
	since    time.Time
	requests int
}

// next is the standstill of an effect that is still under way, after a number of requests.
func (s standstill) next(requests int, now time.Time) standstill {
	if s.since.IsZero() || s.requests != requests {
		return standstill{since: now, requests: requests}
	}
	return s
}

func (s standstill) judge(h *history, now time.Time) []violation {
	if now.Sub(s.since) < standstillAfter {
		return nil
	}
	return []violation{rig.NewViolation(unfinished, "%s has been under way since %s without a request", h.describe(), s.since.Format(clockFormat))}
}
