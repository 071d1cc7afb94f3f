package outage

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// databaseFaults are the faults of the database.
var databaseFaults = []string{"killed", "frozen", "cut off", promoted}

// promoted is the fault in which the primary is lost, and its standby takes over.
const promoted = "promoted"

// bufferFaults are what happens to the buffer meanwhile.
var bufferFaults = []string{"whole", "whole", "one server killed", "leader killed", "all servers killed"}

// buffered reports whether an answer says that the delivery is buffered.
func buffered(answer string) bool { return strings.Contains(answer, `"buffered"`) }

// cycle lets the database be away for a while, and servers of the buffer with it.
func (c *campaign) cycle(ctx context.Context, cycle int) error {
	database := databaseFaults[c.random.IntN(len(databaseFaults))]
	servers := bufferFaults[c.random.IntN(len(bufferFaults))]
	if cycle < len(bufferFaults) {
		database, servers = databaseFaults[cycle%len(databaseFaults)], bufferFaults[cycle]
	}
	if c.options.Fault != "" {
		database = c.options.Fault
	}
	away := time.Duration(500+c.random.IntN(8000)) * time.Millisecond
	c.Progress("cycle %d of %d: the database: %s, away for %s; the buffer: %s", cycle+1, c.options.Cycles, database, away.Round(100*time.Millisecond), servers)
	c.evidence.Faults["database "+database]++
	c.evidence.Faults["buffer "+servers]++
	repair, err := c.fault(database)
	if err != nil {
		return err
	}
	rig.Pause(ctx, time.Duration(c.random.IntN(1000))*time.Millisecond)
	mend, err := c.bufferFault(ctx, servers)
	if err != nil {
		return err
	}
	rig.Pause(ctx, away)
	if c.random.IntN(2) == 0 {
		err = errors.Join(mend(ctx), repair(ctx))
	} else {
		err = errors.Join(repair(ctx), mend(ctx))
	}
	if err != nil {
		return err
	}
	rig.Pause(ctx, time.Duration(c.random.IntN(3000))*time.Millisecond)
	return c.recovered(ctx)
}

// recovered waits until both nodes are ready and record again.
func (c *campaign) recovered(ctx context.Context) error {
	for _, n := range c.nodes {
		err := rig.Poll(ctx, 100*time.Millisecond, time.Minute, "a node to record again", func() (bool, error) {
			metrics, err := n.Metrics(ctx)
			return err == nil && metrics["oncegate_buffer_active"] == 0 && metrics["oncegate_buffer_connected"] == 1, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bufferFault kills servers of the buffer. The function that it returns starts them again.
func (c *campaign) bufferFault(ctx context.Context, name string) (mend func(context.Context) error, err error) {
	var victims []int
	switch name {
	case "whole":
		return func(context.Context) error { return nil }, nil
	case "one server killed":
		victims = []int{c.random.IntN(len(c.cluster.servers))}
	case "leader killed":
		leader, err := c.cluster.leader(ctx)
		if err != nil {
			return nil, err
		}
		victims = []int{leader}
	case "all servers killed":
		victims = []int{0, 1, 2}
	}
	end := func(context.Context) error { return nil }
	if name != "one server killed" {
		end = c.excuse(len(victims) == 1)
	}
	for _, i := range victims {
		if err := c.cluster.servers[i].process.Kill(); err != nil {
			return nil, err
		}
	}
	if len(victims) == 1 { // the others elect a leader within 4 to 9 s, which is longer than some deliveries can wait
		if err := c.cluster.led(ctx, c.cluster.servers[victims[0]].name); err != nil {
			return nil, err
		}
		if err := end(ctx); err != nil {
			return nil, err
		}
		end = func(context.Context) error { return nil }
	}
	return func(ctx context.Context) error {
		for _, i := range victims {
			if err := c.cluster.servers[i].start(ctx); err != nil {
				return err
			}
		}
		if err := c.cluster.settled(ctx); err != nil {
			return err
		}
		return end(ctx)
	}, nil
}
