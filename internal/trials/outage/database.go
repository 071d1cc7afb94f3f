package outage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Faults are the faults of the database.
func Faults() []string { return slices.Clone(databaseFaults) }

// prepareStandby makes a synchronous standby, and a proxy in front of each server. It returns the connection string that names both
// proxies.
func (c *campaign) prepareStandby(ctx context.Context) (through string, err error) {
	if c.standby, err = c.primary.StartStandby(ctx, "standby"); err != nil {
		return "", err
	}
	c.OnEnd(func() error { return c.EndPair(c.primary, c.standby) })
	if err := lab.AwaitStandby(ctx, c.primary, true, startWithin); err != nil {
		return "", err
	}
	var dsns []string
	for _, dsn := range []string{c.primary.DSN(), c.standby.DSN()} {
		proxy, dsn, err := c.Proxy(dsn)
		if err != nil {
			return "", err
		}
		c.proxies, dsns = append(c.proxies, proxy), append(dsns, dsn)
	}
	return lab.JoinHosts(dsns...)
}

// reachable decides whether the nodes reach PostgreSQL.
func (c *campaign) reachable(is bool) {
	for _, p := range c.proxies {
		p.SetReachable(is)
	}
}

// fault makes the database unreachable. The function that it returns ends that.
func (c *campaign) fault(name string) (repair func(context.Context) error, err error) {
	switch name {
	case "killed":
		return func(ctx context.Context) error {
			if err := c.primary.Restart(ctx); err != nil {
				return err
			}
			return c.reconnect(ctx)
		}, c.primary.Kill()
	case "frozen":
		return func(context.Context) error { return c.primary.Thaw() }, c.primary.Freeze()
	case "cut off":
		c.reachable(false)
		return func(context.Context) error { c.reachable(true); return nil }, nil
	case promoted:
		return c.failOver, c.primary.Crash()
	}
	return nil, fmt.Errorf("unknown fault %q: one of %q", name, databaseFaults)
}

// failOver promotes the standby, and makes the former primary its standby for the next cycle.
func (c *campaign) failOver(ctx context.Context) error {
	former, next := c.primary, c.standby
	if err := lab.PromoteAlone(ctx, next); err != nil {
		return err
	}
	c.primary, c.standby = next, former
	if err := c.reconnect(ctx); err != nil {
		return err
	}
	if err := former.Rejoin(ctx, next, "standby"); err != nil {
		return err
	}
	return lab.AwaitStandby(ctx, next, true, startWithin)
}

// reconnect opens the campaign's own connection again.
func (c *campaign) reconnect(ctx context.Context) error {
	_ = c.DB.Close(ctx) // the server that it led to is gone
	return rig.Poll(ctx, 100*time.Millisecond, time.Minute, "PostgreSQL to start", func() (bool, error) {
		db, err := rig.Connect(ctx, c.primary.DSN(), c.Schema)
		if err == nil {
			c.DB = db
		}
		return err == nil, nil
	})
}
