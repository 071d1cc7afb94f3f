package kills

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// newEvent makes a new event for a route, about a new order. If hold is true, its body makes the function in the
// database wait.
func (c *Campaign) newEvent(route Route, hold bool) string {
	says := "no"
	if hold {
		says = "yes"
	}
	return c.newEventOf(route, fmt.Sprintf("order_%06d", c.made), says)
}

func (c *Campaign) newEventOf(route Route, order, hold string) string {
	id := fmt.Sprintf("evt_%s_%06d", c.run, c.made)
	c.made++
	body := fmt.Appendf(nil,
		`{"id":%q,"object":"event","type":"%s","order":%q,"hold":%q,"to":"%s@sink.example","note":"für €","data":{"object":{"n":%d}}}`,
		id, route.eventType(), order, hold, id, c.random.Uint32())
	c.sent.Add(ledger.Event{ID: id, Source: "stripe", Type: route.eventType(), Subject: order, Body: body})
	c.newest[route] = id
	return id
}

// deliverTwin delivers another event about the same order as the newest event of a route. On a route with a key, only
// one of the two may happen, whatever the fault did to the first.
func (c *Campaign) deliverTwin(ctx context.Context, route Route) error {
	return c.deliver(ctx, c.newEventOf(route, c.sent.Get(c.newest[route]).Subject, "no"))
}

// deliver sends an event to the receiver until the receiver acknowledges it.
func (c *Campaign) deliver(ctx context.Context, event string) error {
	return c.client.DeliverUntil(ctx, waitLimit, event, func() string { return c.receiver.Public })
}

// deliverToOtherRoutes delivers an event for each route but the one whose next request the fault is to strike, so that
// the workers have other work too.
func (c *Campaign) deliverToOtherRoutes(ctx context.Context, s step) error {
	if c.options.Defect != "" {
		return nil
	}
	for _, r := range []Route{Idempotent, Once, Mail, Table} {
		if r == s.route {
			continue
		}
		if err := c.deliver(ctx, c.newEvent(r, false)); err != nil {
			return err
		}
		if r.HasKey() {
			if err := c.deliverTwin(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Campaign) cycle(ctx context.Context, s step) error {
	switch s.fault {
	case killUnread:
		c.script.on(anyOf(s.route), holdUnread)
		return c.killHeld(ctx, c.newEvent(s.route, false))
	case killRead:
		if s.route == Table {
			return c.killInsideTransaction(ctx)
		}
		return c.killAt(ctx, s.route, holdRead)
	case killAnswer:
		return c.killAt(ctx, s.route, holdAnswer)
	case killBeforeSend:
		return c.killAtFailpoint(ctx, s.route, "work-before-send:1")
	case killAfterSend:
		return c.killAtFailpoint(ctx, s.route, "work-after-send:1")
	case pauseRead:
		return c.pauseBeyondLease(ctx, s.route)
	case resetUnreadRequest:
		c.script.on(anyOf(s.route), resetUnread)
		return c.expectAct(ctx, c.newEvent(s.route, false), resetUnread)
	case resetReadRequest:
		event := c.newEvent(s.route, false)
		c.script.on(event, resetRead)
		return c.expectAct(ctx, event, resetRead)
	case resetKeptConnection:
		return c.resetKeptAlive(ctx, s.route)
	case clocksApart:
		return c.skewClocks(ctx, s.route)
	case wrongDatabase:
		return c.wrongDatabase(ctx, s.route)
	case answerBusyAfter:
		event := c.newEvent(s.route, false)
		c.script.on(event, answerBusy)
		return c.expectAct(ctx, event, answerBusy)
	case cutBeforeSendStart:
		return c.cutSendStart(ctx, rig.CutStatement)
	case cutAfterSendStart:
		return c.cutSendStart(ctx, rig.CutAnswer)
	case cutBefore:
		return c.cutCommit(ctx, rig.CutBefore)
	case cutAfter:
		return c.cutCommit(ctx, rig.CutAfter)
	}
	return fmt.Errorf("the step %q is unknown", s.fault)
}

func (c *Campaign) killAt(ctx context.Context, route Route, a targetAct) error {
	event := c.newEvent(route, false)
	c.script.on(event, a)
	return c.killHeld(ctx, event)
}

// killHeld delivers an event and kills the worker whose request a target is holding.
func (c *Campaign) killHeld(ctx context.Context, event string) error {
	h, err := c.deliverUntilHeld(ctx, event)
	if err != nil {
		return err
	}
	return c.replaceWorker(ctx, c.slots[h.slot], h)
}

// deliverUntilHeld delivers an event and waits until a target is holding a request.
func (c *Campaign) deliverUntilHeld(ctx context.Context, event string) (*heldRequest, error) {
	if err := c.deliver(ctx, event); err != nil {
		return nil, err
	}
	select {
	case h := <-c.script.heldRequests:
		return h, nil
	case <-time.After(waitLimit):
		return nil, fmt.Errorf("waiting for a request: %w", rig.ErrTimeout)
	}
}

// killAtFailpoint starts a worker with a fail point in a random slot and delivers events until the worker has killed
// itself there.
func (c *Campaign) killAtFailpoint(ctx context.Context, route Route, failpoint string) error {
	s := c.slots[c.random.IntN(len(c.slots))]
	if err := s.worker.Stop(30 * time.Second); err != nil {
		return err
	}
	if err := c.startWorker(ctx, s, failpoint); err != nil {
		return err
	}
	err := rig.Until(ctx, waitLimit, "the fail point", func() (bool, error) {
		if !s.worker.Running() {
			return true, nil
		}
		return false, c.deliver(ctx, c.newEvent(route, false)) // either worker may get it
	})
	if err != nil {
		return err
	}
	c.summary.Kills++
	return c.startWorker(ctx, s, "")
}

const readEffect = `
SELECT e.id::text, e.state FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE v.event_id = $1`

// pauseBeyondLease pauses the worker whose request is held until another worker has ended its attempt, and then
// continues it. Everything that the paused worker tries to settle afterwards must be refused.
func (c *Campaign) pauseBeyondLease(ctx context.Context, route Route) error {
	event := c.newEvent(route, false)
	c.script.on(event, holdRead)
	h, err := c.deliverUntilHeld(ctx, event)
	if err != nil {
		return err
	}
	s := c.slots[h.slot]
	if err := s.worker.Pause(); err != nil {
		return err
	}
	c.summary.Pauses++
	h.release <- true // the answer waits for it
	var effect string
	var state inbox.EffectState
	err = rig.Until(ctx, waitLimit, "the lease to end", func() (bool, error) {
		err := c.DB.QueryRow(ctx, readEffect, event).Scan(&effect, &state)
		return state == inbox.EffectDone || state == inbox.EffectIndeterminate, err
	})
	if err := errors.Join(err, s.worker.Continue()); err != nil {
		return err
	}
	err = rig.Until(ctx, waitLimit, "the worker that was stopped to be refused", func() (bool, error) {
		refused, err1 := s.worker.Logged("effect was taken over", effect)
		gaveUp, err2 := s.worker.Logged("wake-up put off", "settling", effect) // the rest of the lease is too short
		return refused || gaveUp, errors.Join(err1, err2)
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, s.worker.Tail())
	}
	return nil
}

// expectAct delivers an event and waits until a target has done what the script says.
func (c *Campaign) expectAct(ctx context.Context, event string, a targetAct) error {
	if err := c.deliver(ctx, event); err != nil {
		return err
	}
	select {
	case got := <-c.script.finishedActs:
		if got != a {
			return fmt.Errorf("a target did %q and not %q", got, a)
		}
		if a == answerBusy {
			c.summary.BusyAnswers++
		} else {
			c.summary.Resets++
		}
		return nil
	case <-time.After(waitLimit):
		return fmt.Errorf("waiting for a request: %w", rig.ErrTimeout)
	}
}

// resetKeptAlive delivers events until one arrives over a connection that was kept alive, which the target resets.
func (c *Campaign) resetKeptAlive(ctx context.Context, route Route) error {
	c.script.on(anyReused, resetReused)
	c.summary.Resets++
	return rig.Until(ctx, waitLimit, "a connection kept alive", func() (bool, error) {
		select {
		case <-c.script.finishedActs:
			return true, nil
		default:
			return false, c.deliver(ctx, c.newEvent(route, false))
		}
	})
}

// cutCommit drops a worker's connection at the COMMIT of an effect in the database.
func (c *Campaign) cutCommit(ctx context.Context, where rig.Cut) error {
	_, err := c.deliverUntilCut(ctx, where, applyWord, Table)
	return err
}

// deliverUntilCut delivers events until a worker's connection has been dropped, and returns the events.
func (c *Campaign) deliverUntilCut(ctx context.Context, where rig.Cut, word string, route Route) (events []string, err error) {
	first, second := c.slots[0].proxy.CutNext(where, word), c.slots[1].proxy.CutNext(where, word)
	c.summary.Cuts++
	err = rig.Until(ctx, waitLimit, "a connection to be cut", func() (bool, error) {
		select {
		case <-first:
			return true, nil
		case <-second:
			return true, nil
		default:
			events = append(events, c.newEvent(route, false))
			return false, c.deliver(ctx, events[len(events)-1])
		}
	})
	c.slots[0].proxy.CancelCut()
	c.slots[1].proxy.CancelCut()
	return events, err
}

const (
	lockTable   = `SELECT pg_advisory_lock(hashtext(current_schema()))`
	unlockTable = `SELECT pg_advisory_unlock(hashtext(current_schema()))`

	readWaiting = `
SELECT coalesce(max(a.client_port), 0) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND NOT l.granted AND l.objid = hashtext(current_schema())::bigint & 4294967295`
)

// killInsideTransaction kills a worker while its effect waits inside a transaction of the database.
func (c *Campaign) killInsideTransaction(ctx context.Context) error {
	if _, err := c.DB.Exec(ctx, lockTable); err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	err := c.deliver(ctx, c.newEvent(Table, true))
	var s *workerSlot
	if err == nil {
		err = rig.Until(ctx, waitLimit, "an effect to act", func() (bool, error) {
			var port int
			err := c.DB.QueryRow(ctx, readWaiting).Scan(&port)
			for _, candidate := range c.slots {
				if port > 0 && candidate.proxy.CarriesPort(port) {
					s = candidate
				}
			}
			return s != nil, err
		})
	}
	if err == nil {
		err = s.worker.Kill()
	}
	if _, unlocked := c.DB.Exec(ctx, unlockTable); unlocked != nil {
		err = errors.Join(err, unlocked)
	}
	if err != nil {
		return err
	}
	return c.replaceWorker(ctx, s, nil)
}
