package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Fault is what happens to the primary before its standby is promoted, and afterwards.
type Fault string

// The faults.
const (
	// Kill crashes the primary.
	Kill Fault = "kill"
	// Freeze stops it, and resumes it once the processes work elsewhere.
	Freeze Fault = "freeze"
	// Thaw stops it only until the standby is promoted, so that its sessions live.
	Thaw Fault = "thaw"
	// Switchover shuts it down in order.
	Switchover Fault = "switchover"
	// Return crashes it, and starts it again as it was, taking writes.
	Return Fault = "return"
)

// Faults are all of them.
func Faults() []Fault { return []Fault{Kill, Freeze, Thaw, Switchover, Return} }

const (
	// warmUp is how long the load runs before a fault, so that every process has made a commit that it remembers.
	warmUp = 5 * time.Second

	// together is how long a former primary and its successor both take writes.
	together = 5 * time.Second

	// enough acknowledgements say that deliveries are taken again.
	enough = 30
)

func (c *campaign) runCycles(ctx context.Context) error {
	draw := rig.Rounds(c.random, Faults())
	for i := range c.options.Cycles {
		fault := cmp.Or(c.options.Fault, draw())
		began := time.Now()
		if err := c.cycle(ctx, fault); err != nil {
			return fmt.Errorf("cycle %d, %s: %w", i+1, fault, err)
		}
		c.summary.Cycles++
		pauses := c.summary.Pauses[fault]
		c.Progress("cycle %d of %d: %s, acknowledged again after %.1f s (%.1f s)",
			i+1, c.options.Cycles, fault, pauses[len(pauses)-1].Seconds(), time.Since(began).Seconds())
	}
	return nil
}

func (c *campaign) cycle(ctx context.Context, fault Fault) error {
	former, next := c.primary, c.standby
	if !rig.Pause(ctx, warmUp) {
		return ctx.Err()
	}
	at := time.Now()
	begin := map[Fault]func() error{
		Kill: former.Crash, Return: former.Crash, Freeze: former.Freeze, Thaw: former.Freeze,
		Switchover: func() error { return former.ShutDown(ctx) },
	}[fault]
	if err := begin(); err != nil {
		return err
	}
	if err := lab.PromoteAlone(ctx, next); err != nil {
		return err
	}
	if fault == Thaw {
		if err := former.Thaw(); err != nil {
			return err
		}
	}
	promoted := time.Now()
	err := rig.Until(ctx, waitLimit, "acknowledgements", func() (bool, error) { n, _ := c.seen.since(promoted); return n >= enough, nil })
	if err != nil {
		return err
	}
	_, first := c.seen.since(promoted)
	c.summary.Pauses[fault] = append(c.summary.Pauses[fault], first.Sub(at))
	switch fault {
	case Freeze:
		err = former.Thaw()
	case Return:
		err = former.Restart(ctx)
	case Kill, Thaw, Switchover:
	}
	if err != nil {
		return err
	}
	if !rig.Pause(ctx, together) {
		return ctx.Err()
	}
	if err := errors.Join(c.lookInto(ctx, former, fault, at, promoted), former.Crash()); err != nil {
		return err
	}
	if err := former.Rejoin(ctx, next, "standby"); err != nil {
		return err
	}
	c.primary, c.standby = next, former
	return c.stream(ctx)
}

// asking counts the processes whose sends wait for the standby.
const asking = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oncegate standbys'`

// unfenced is the mistake of a binary that does not compare hosts.
const unfenced = "unfenced"

// stream waits until the standby has what the primary has, and commits wait for it if they are to.
func (c *campaign) stream(ctx context.Context) error {
	err := lab.AwaitStandby(ctx, c.primary, c.options.Synchronous, waitLimit)
	if err != nil || c.options.Wrong == unfenced {
		return err
	}
	standby, err := pgx.Connect(ctx, c.standby.DSN())
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer standby.Close(context.WithoutCancel(ctx))
	return rig.Until(ctx, waitLimit, "the processes to wait for the standby", func() (bool, error) {
		var n int
		err := standby.QueryRow(ctx, asking).Scan(&n)
		return n == len(c.nodes), err
	})
}
