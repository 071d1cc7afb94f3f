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

// left is how much of its deadline a delivery has left. It is measured by the
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

// commit runs the deliveries as one group and answers every one of them. A
// delivery that has waited so long that hardly any of its deadline is left is
// answered at once: the deadline of a group is that of its oldest delivery.
func (g *Gate) commit(deliveries []*delivery) {
	live := deliveries[:0]
	for _, d := range deliveries {
		if g.timeLeft(d) < g.cfg.Deadline/8 {
			g.stats.failed.Add(1)
			g.health.failed(g.cfg.Clock.Local(), "commits take longer than a delivery may")
			d.answer(fmt.Errorf("%w: the delivery waited for almost all of its deadline of %s", ErrUnavailable, g.cfg.Deadline))
			continue
		}
		live = append(live, d)
	}
	if len(live) > 0 {
		g.commitOrSplit(live)
	}
}

// attempt commits the deliveries as one group, or takes it apart if one of them is
// at fault. What concerns all of them is waited for until the group's deadline, and
// then answered to all at once.
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
			<-time.After(wait) // a statement that is cancelled at once must not be run in a tight loop
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

// split commits each delivery alone, so that what one of them brought fails alone.
// Those that meet a lock are tried once more when the others are through, and share
// what is left of their deadlines.
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

// commitGroup runs the group and answers its deliveries if it is committed. A missing
// partition is made, and what may have been committed without our seeing it is run
// once more. lock bounds each wait for a lock.
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
	g.health.succeeded()
	for _, d := range group.deliveries {
		d.answer(nil)
	}
	return nil
}

// try runs the group once, on a connection of its own, within what is left of its
// deadline. After an error the connection goes back only if a ROLLBACK was answered.
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
	// The server is to give up a little before we do: an error in time is a rollback,
	// where a connection that is given up may still commit.
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
