package cli

import (
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// parseInstant parses a duration before now, or a point in time. It returns the zero time for "".
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

// tableClock formats a time for a table: relative on a terminal, exact otherwise.
func (s *shell) tableClock(t time.Time) string {
	if s.width() > 0 {
		return relative(t, time.Now())
	}
	return clock(t)
}

// relative formats a time relative to now, or as a date if the difference is more than a month.
func relative(t, now time.Time) string {
	const day = 24 * time.Hour
	d := now.Sub(t)
	future := d < 0
	if future {
		d = -d
	}
	var text string
	switch {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		text = fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		text = fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		text = fmt.Sprintf("%d h", d/time.Hour)
	case d < 31*day:
		text = fmt.Sprintf("%d days", d/day)
	default:
		return t.UTC().Format(time.DateOnly)
	}
	if future {
		return "in " + text
	}
	return text + " ago"
}

func timeOrEmpty(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock(*t)
}
