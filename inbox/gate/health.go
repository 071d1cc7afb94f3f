package gate

import (
	"fmt"
	"sync"
	"time"
)

// When a gate that fails is not ready, and when it is again.
const (
	// FailingAfter is how long commits must have failed without a success.
	FailingAfter = 5 * time.Second

	// HealthyAfter is how long after the last failure a commit without a delivery clears the gate.
	// A balancer that has taken the process out sends no delivery that could.
	HealthyAfter = 10 * time.Second
)

// health distinguishes a gate that cannot commit from one that has met a bad delivery. It counts
// failures that every delivery would have met: no connection, a lost one, an error of the server, a
// lock of a whole table, a commit that does not end. It does not count failures of one delivery (a
// value that cannot be stored, a row that another transaction has locked, a conflict) and
// overloads.
type health struct {
	mu     sync.Mutex
	first  time.Time // of the failures since the last success; zero if there is none
	last   time.Time
	reason string
}

func (h *health) failed(now time.Time, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first.IsZero() {
		h.first = now
	}
	h.last, h.reason = now, reason
}

func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = time.Time{}
}

// Ready returns an error while every commit of the gate has failed for [FailingAfter]. The first
// one that succeeds clears it, and so does [Gate.Committed] when nothing has failed for
// [HealthyAfter]. If there are several durabilities, only deliveries of the weakest one count, because a process that can
// acknowledge those must stay in use; see [Gate.Durable] for the others.
func (g *Gate) Ready() error { return g.lanes[0].ready(g.cfg.Clock.Local()) }

func (l *lane) ready(now time.Time) error {
	h := &l.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if failing := h.last.Sub(h.first); !h.first.IsZero() && failing >= FailingAfter {
		return fmt.Errorf("deliveries have not been recorded for %s: %s", now.Sub(h.first).Truncate(time.Second), h.reason)
	}
	return nil
}

// Committed reports that a commit of the weakest durability which began at the given time, by the machine's clock, has
// succeeded on the gate's pool without a delivery, and whether the server then named synchronous standbys; see [CommitProbe].
func (g *Gate) Committed(began time.Time, named bool) {
	g.standby.Store(named)
	h := &g.lanes[0].health
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.first.IsZero() && began.Sub(h.last) >= HealthyAfter {
		h.first = time.Time{}
	}
}
