package cli

import (
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// parseInstant reads a duration before now or an instant; nothing is no time.
func parseInstant(flag, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if ago, err := yamltree.ParseDuration(text); err == nil {
		return time.Now().Add(-ago), nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, usagef("%s %q: neither a duration such as 2h nor an instant such as 2026-11-20T12:00:00Z", flag, text)
	}
	return at, nil
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// tableClock leaves the year out where the terminal is narrow.
func (s *shell) tableClock(t time.Time) string {
	if n := s.width(); n > 0 && n < 120 {
		return t.UTC().Format("01-02 15:04:05Z")
	}
	return clock(t)
}

func timeOrEmpty(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock(*t)
}
