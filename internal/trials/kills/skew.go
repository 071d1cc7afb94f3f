package kills

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// The skews of clocks, as fail points of the binary.
const (
	clockAhead  = "clock:7200"
	clockBehind = "clock:-600"
)

// skew gives a worker and the receiver wrong clocks, and has the other worker hold
// requests: leases and signatures are judged by the database's time, so neither
// clock may end a lease early or refuse a delivery. Both processes must say that
// they are not ready.
func (c *Campaign) skew(ctx context.Context, route Route) error {
	s := c.seats[c.random.IntN(len(c.seats))]
	err := errors.Join(s.process.Stop(30*time.Second), c.receiver.Stop(30*time.Second))
	if err == nil {
		err = errors.Join(c.take(ctx, s, clockAhead), c.receive(ctx, clockBehind))
	}
	for elsewhere := 0; elsewhere < 2 && err == nil; {
		event := c.event(route, false)
		c.script.onEvent(event, holdRead)
		var h *held
		if h, err = c.hit(ctx, event); err != nil {
			break
		}
		if h.seat != s.number {
			elsewhere++
			<-time.After(lease / 2) // in which the wrong clock sweeps
		}
		h.release <- true
	}
	if err != nil {
		return err
	}
	if err := errors.Join(s.process.Stop(30*time.Second), c.receiver.Stop(30*time.Second)); err != nil {
		return err
	}
	return errors.Join(c.take(ctx, s, ""), c.receive(ctx, ""))
}

// wrongDatabase gives the receiver and the senders one clock, 10 minutes behind the
// database's: as far as they can tell, the database's is wrong. Not one genuine
// delivery may be refused for its time; each is put off, and taken when the clocks
// agree again.
func (c *Campaign) wrongDatabase(ctx context.Context, route Route) error {
	if err := errors.Join(c.receiver.Stop(30*time.Second), c.receive(ctx, clockBehind)); err != nil {
		return err
	}
	var events []string
	for range 20 {
		event := c.event(route, false)
		events = append(events, event)
		status, err := c.post(ctx, event, time.Now().Add(-10*time.Minute))
		if err != nil {
			return err
		}
		if status != http.StatusServiceUnavailable {
			return fmt.Errorf("a genuine delivery was answered %d while the database's clock is wrong, not 503", status)
		}
	}
	if err := errors.Join(c.receiver.Stop(30*time.Second), c.receive(ctx, "")); err != nil {
		return err
	}
	for _, event := range events {
		if err := c.deliver(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// alarmed waits until a process listens and, asked whether it is ready, says that
// its clock is wrong.
func (c *Campaign) alarmed(ctx context.Context, p *rig.Process, admin, log string) error {
	if err := p.Listening(ctx, admin); err != nil {
		return fmt.Errorf("starting with a wrong clock: %w: %s", err, tail(log))
	}
	return c.until(ctx, "the alarm about the clock", func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		return said(log, "not ready", `"clock"`)
	})
}

// said reports whether a log has a line with all the words.
func said(log string, words ...string) (bool, error) {
	content, err := os.ReadFile(log)
	if err != nil {
		return false, fmt.Errorf("reading a log: %w", err)
	}
lines:
	for line := range bytes.Lines(content) {
		for _, w := range words {
			if !bytes.Contains(line, []byte(w)) {
				continue lines
			}
		}
		return true, nil
	}
	return false, nil
}
