package proxies

import (
	"bytes"
	"maps"
	"slices"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violation.
const (
	Lost     rig.Kind = "lost"
	Doubled  rig.Kind = "doubled"
	Altered  rig.Kind = "altered"
	Invented rig.Kind = "invented"
	Refused  rig.Kind = "refused"
	Answered rig.Kind = "answered"
	Calm     rig.Kind = "calm"
)

// Check returns the violations. A delivery without a 2xx during a fault is none, because its sender repeats it.
func Check(v *Evidence) (found []rig.Violation) {
	add := func(kind rig.Kind, event, format string, args ...any) {
		violation := rig.NewViolation(kind, format, args...)
		violation.Event = event
		found = append(found, violation)
	}
	for _, p := range v.Probes {
		if p.Got != p.Want {
			add(Answered, "", "%s: got %s, want %s", p.Name, p.Got, p.Want)
		}
	}
	for i := range v.Phases {
		if p := &v.Phases[i]; p.Name == calm && p.failures() > 0 {
			add(Calm, "", "%d of %d deliveries had no 2xx while nothing was done: %v", p.failures(), p.Deliveries, p.Failed)
		}
	}
	rows := map[string]int{}
	for _, e := range v.Events {
		sent := v.Deliveries[e.ID]
		switch rows[e.ID]++; {
		case sent == nil:
			add(Invented, e.ID, "is recorded, and it was never sent")
		case !bytes.Equal(e.SHA, sent.SHA[:]):
			add(Altered, e.ID, "is recorded with another body")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.Deliveries)) {
		sent := v.Deliveries[id]
		if sent.Acknowledged > 0 && rows[id] == 0 {
			add(Lost, id, "was acknowledged and is not recorded")
		}
		if sent.Acknowledged > 0 && v.Applied[id] == 0 {
			add(Lost, id, "was acknowledged and is not applied")
		}
		if n := max(rows[id], v.Applied[id], sent.Recorded); n > 1 {
			add(Doubled, id, "is recorded %d times, applied %d times, and was called new %d times", rows[id], v.Applied[id], sent.Recorded)
		}
		if sent.Refused > 0 {
			add(Refused, id, "was refused %d times, and it is signed", sent.Refused)
		}
	}
	return found
}
