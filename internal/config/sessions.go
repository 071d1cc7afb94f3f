package config

import (
	"errors"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Sessions configures whether callers of a source of operations may open sessions for agents.
type Sessions struct {
	// Longest is the longest duration of a session. Zero means that no session can be opened.
	Longest time.Duration
}

// longestSession limits how long a session's token may be valid. A session is for one run; if the
// run takes longer, the engine opens another session.
const longestSession = 7 * 24 * time.Hour

func (s *Sessions) keys() []Key {
	return []Key{value("longest", &s.Longest, form[time.Duration]{sessionDuration, durationText, durationSchema}, "required", "The longest time that a session may be opened for, from `1m` to `7d`. A session lasts `1h`, or this long if it is shorter, unless its engine asks for another time.")}
}

func (r *reader) sessions(s *Source, n *yamltree.Node) {
	if n == nil {
		return
	}
	if s.Provider != nil && !s.Provider.IsOperation() {
		n.FailKey("sessions are for the provider operation; %s has senders and no agents", s.Provider.Name())
		return
	}
	r.fields(n, s.Sessions.keys())
	if s.Sessions.Longest == 0 && n.Sound() {
		n.Fail("longest is missing: how long a session may last at most, such as longest: 8h")
	}
}

func sessionDuration(s string) (time.Duration, error) {
	d, err := yamltree.PositiveDuration(s)
	switch {
	case err != nil:
		return 0, err
	case d < time.Minute:
		return 0, errors.New("shorter than 1m, which leaves an agent no time")
	case d > longestSession:
		return 0, errors.New("longer than 7d; an engine with a longer run opens another session of the run, which keeps the keys")
	}
	return d, nil
}
