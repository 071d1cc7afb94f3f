package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

const (
	// gateLockTimeout is how long a statement of the gate waits for a lock: the
	// lock_timeout of [session.PoolGate].
	gateLockTimeout = time.Second

	// aloneLockTimeout is how long one delivery of a group that was taken apart waits
	// for a lock before the others have been tried.
	aloneLockTimeout = 50 * time.Millisecond
)

// timeLeft is how much of its deadline a delivery has left. It is measured by the
// machine's own clock, which is not corrected while the delivery waits.
func (g *Gate) timeLeft(d *delivery) time.Duration {
	return min(g.cfg.Deadline-g.cfg.Clock.Local().Sub(d.entered), g.cfg.Deadline)
}

// groupTimeLeft is the least that a delivery of the group has left.
func (g *Gate) groupTimeLeft(deliveries []*delivery) time.Duration {
	least := g.cfg.Deadline
	for _, d := range deliveries {
		least = min(least, g.timeLeft(d))
	}
	return least
}

// commit commits the deliveries as one group and answers every one of them. It answers
// a delivery that has hardly any of its deadline left at once, because the deadline of
// a group is the deadline of its oldest delivery.
func (g *Gate) commit(deliveries []*delivery) {
	live := deliveries[:0]
	for _, d := range deliveries {
		if g.timeLeft(d) < g.cfg.Deadline/8 {
			g.stats.failed.Add(1)
			d.lane.health.failed(g.cfg.Clock.Local(), "commits take longer than a delivery may")
			d.answer(fmt.Errorf("%w: the delivery waited for almost all of its deadline of %s", ErrUnavailable, g.cfg.Deadline))
			continue
		}
		live = append(live, d)
	}
	if len(live) > 0 {
		g.commitOrSplit(live)
	}
}

// commitOrSplit commits the deliveries as one group, or splits it if one of them is at
// fault. It retries a fault that concerns all of them until the group's deadline, and
// then answers all of them.
func (g *Gate) commitOrSplit(deliveries []*delivery) {
	group := newGroup(deliveries)
	wait := 5 * time.Millisecond
	for again := 0; ; again++ {
		err := g.commitGroup(group, gateLockTimeout)
		if err == nil {
			return
		}
		switch fault := classify(err); {
		case fault == faultShared && g.groupTimeLeft(deliveries) > wait:
			<-time.After(wait) // a statement that is cancelled at once must not run in a tight loop
			wait = min(2*wait, 100*time.Millisecond)
			continue
		case fault == faultSplit && len(deliveries) > 1:
			g.stats.splits.Add(1)
			if !g.splitCalls(deliveries) {
				g.split(deliveries)
			}
			return
		case len(deliveries) == 1 && g.refuseByCall(deliveries[0], err):
			return
		case fault == faultSplit && again == 0:
			continue
		}
		g.fail(deliveries, err)
		return
	}
}

// split commits each delivery alone, so that a delivery with a fault fails alone. It
// tries those that meet a lock once more after the others, and they share the rest of
// their deadlines.
func (g *Gate) split(deliveries []*delivery) {
	var blocked []*delivery
	for i, d := range deliveries {
		lock := min(g.timeLeft(d)/time.Duration(len(deliveries)-i), aloneLockTimeout)
		switch err := g.commitGroup(newGroup([]*delivery{d}), lock); {
		case err == nil, g.refuseByCall(d, err):
		case g.timeLeft(d) > 0 && (classify(err) == faultSplit || classify(err) == faultShared):
			blocked = append(blocked, d)
		default:
			g.fail([]*delivery{d}, err)
		}
	}
	for i, d := range blocked {
		lock := min(g.timeLeft(d)/time.Duration(len(blocked)-i), gateLockTimeout)
		if err := g.commitGroup(newGroup([]*delivery{d}), lock); err != nil && !g.refuseByCall(d, err) {
			g.fail([]*delivery{d}, err)
		}
	}
}

// commitGroup runs the group and answers its deliveries if it is committed. It makes a
// missing partition, and runs a group that may have been committed without our
// knowledge once more. lock bounds each wait for a lock.
func (g *Gate) commitGroup(group *group, lock time.Duration) error {
	err := g.tryGroup(group, lock, false)
	for ambiguous, partitions := 0, 0; err != nil; err = g.tryGroup(group, lock, true) {
		switch classify(err) {
		case faultPartition:
			if partitions++; partitions > 2 {
				return err
			}
			if made := g.makePartitions(group); made != nil {
				return made
			}
		case faultAmbiguous:
			if ambiguous++; ambiguous > 1 || g.groupTimeLeft(group.deliveries) <= 0 {
				return err
			}
		default:
			return err
		}
	}
	group.resolve()
	g.stats.groups.Add(1)
	if group.labelled && g.cfg.Labelled != nil {
		g.cfg.Labelled()
	}
	group.lane.health.succeeded()
	for _, d := range group.deliveries {
		d.answer(nil)
	}
	return nil
}

// tryGroup runs the group once, on its own connection, within the rest of its deadline.
// After an error the connection is returned only if a ROLLBACK was answered.
func (g *Gate) tryGroup(group *group, lock time.Duration, again bool) error {
	left := g.groupTimeLeft(group.deliveries)
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	conn, err := g.cfg.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("getting a connection for the gate: %w", err)
	}
	for _, l := range group.keyEntries {
		l.row, l.inserted, l.insertedEarlier, l.rearm, l.repeats = inbox.ID{}, false, false, false, inbox.ID{}
	}
	// The server should give up a little before we do: an error in time means a
	// rollback, but a connection that we abandon may still commit.
	group.lock = max(min(lock, left-left/8), time.Millisecond)
	sent, err := g.runGroup(ctx, conn, group)
	if err == nil {
		conn.Release(false)
		return nil
	}
	if sent && classify(err) == faultAmbiguous {
		g.stats.ambiguous.Add(1)
	}
	_, rollback := conn.Exec(ctx, "ROLLBACK")
	conn.Release(rollback != nil)
	if !again {
		g.resetAfter(err)
	}
	return err
}
