package jobs

import (
	"fmt"
	"sync"
	"time"
)

// claimHealth records since when claims have failed.
type claimHealth struct {
	mu      sync.Mutex
	failing time.Time // zero while they succeed
}

func (h *claimHealth) note(err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.failing = time.Time{}
	case h.failing.IsZero():
		h.failing = now
	}
}

func (h *claimHealth) since() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failing
}

// standstill is how long this process may go without a successful sweep or claim: three times the
// shortest lease, and never less than three sweeps.
func (c *Client) standstill() time.Duration {
	return 3 * max(c.sweeper.shortest, c.sweeper.cfg.Every)
}

// Ready returns why this process carries out no effects although it runs: no sweep, or no claim, has
// succeeded for three leases, or effects have been due for that long and the process has begun no
// wake-up. The log has the cause of the first two. An idle process claims nothing and is ready as long
// as it sweeps.
func (c *Client) Ready() error {
	now, limit := c.now(), c.standstill()
	if at, runs := c.sweeper.Swept(); runs && now.Sub(at) > limit {
		return fmt.Errorf("no sweep has succeeded for %s, over %s", now.Sub(at).Round(time.Second), limit)
	}
	if since := c.claims.since(); !since.IsZero() && now.Sub(since) > limit {
		return fmt.Errorf("no claim has succeeded for %s, over %s", now.Sub(since).Round(time.Second), limit)
	}
	// A backlog is no failure, because this process and the others may be busy. A process that begins no
	// effect of it is not working.
	if begun := time.Unix(0, c.begun.Load()); now.Sub(begun) > limit && c.sweeper.Unbegun() > limit {
		return fmt.Errorf("an effect has been due for %s and this process has begun none for %s, over %s: River fetches no jobs here, see its messages in the log",
			c.sweeper.Unbegun().Round(time.Second), now.Sub(begun).Round(time.Second), limit)
	}
	return nil
}
