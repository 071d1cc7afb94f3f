package consume

import (
	"sync"
	"sync/atomic"
	"time"
)

// State describes a consumer at one moment.
type State struct {
	// Reached is when the broker last answered a request for messages. It is zero before the first time.
	Reached time.Time

	// Error is why the last group could not be taken, recorded or acknowledged, and Failing is when the failures began. Both are
	// empty if the last group succeeded.
	Error   string
	Failing time.Time

	// Lag is how many messages the broker has that are not acknowledged. It is -1 before the broker has said so.
	Lag int64

	// Taken, Acknowledged and Returned count messages, and Errors failures, since the consumer was made.
	Taken, Acknowledged, Returned, Errors uint64
}

// state is the State that the loop writes and others read.
type state struct {
	taken, acknowledged, returned atomic.Uint64

	mu      sync.Mutex
	now     State
	lagging bool // the lag is known
	logged  time.Time
}

// logEvery is how often a failure is logged that lasts.
const logEvery = time.Minute

// reached notes that the broker has answered.
func (s *state) reached(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Reached = at
}

// worked notes that a group succeeded.
func (s *state) worked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Error, s.now.Failing = "", time.Time{}
}

// failed notes a failure and reports whether to log it.
func (s *state) failed(err error, at time.Time) (log bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Errors++
	log = s.now.Error != err.Error() && at.Sub(s.logged) > time.Second || at.Sub(s.logged) >= logEvery
	if log {
		s.logged = at
	}
	if s.now.Failing.IsZero() {
		s.now.Failing = at
	}
	s.now.Error = err.Error()
	return log
}

func (s *state) measured(lag int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lagging = s.lagging || err == nil; err == nil {
		s.now.Lag = lag
	}
}

// State returns the present state.
func (c *Consumer) State() State {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.now
	if !s.lagging {
		out.Lag = -1
	}
	out.Taken, out.Acknowledged, out.Returned = s.taken.Load(), s.acknowledged.Load(), s.returned.Load()
	return out
}
