package outage

import (
	"fmt"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violation.
const (
	Lost      rig.Kind = "lost"
	Doubled   rig.Kind = "doubled"
	Invented  rig.Kind = "invented"
	Unordered rig.Kind = "unordered"
	Refused   rig.Kind = "refused"
)

// Check returns the violations.
func Check(v *Evidence) (found []rig.Violation) {
	add := func(kind rig.Kind, format string, args ...any) {
		found = append(found, rig.Violation{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	}
	times, last := map[Applied]int{}, map[int]int{}
	for _, a := range v.Applied {
		times[a]++
		if a.Number < last[a.Customer] {
			add(Unordered, "delivery %d of customer %d was applied after delivery %d", a.Number, a.Customer, last[a.Customer])
		}
		last[a.Customer] = max(last[a.Customer], a.Number)
	}
	sent := map[Applied]bool{}
	for _, d := range v.Deliveries {
		at := Applied{d.Customer, d.Number}
		sent[at] = true
		switch {
		case d.Status/100 == 2 && times[at] == 0:
			add(Lost, "delivery %d of customer %d was acknowledged, and has no effect", d.Number, d.Customer)
		case d.Status/100 != 2 && !d.Excused && !d.Electing:
			add(Refused, "delivery %d of customer %d was answered %d while the buffer worked", d.Number, d.Customer, d.Status)
		}
	}
	for at, n := range times {
		if n > 1 {
			add(Doubled, "delivery %d of customer %d has %d effects", at.Number, at.Customer, n)
		}
		if !sent[at] {
			add(Invented, "delivery %d of customer %d was never sent", at.Number, at.Customer)
		}
	}
	return found
}

// Summary describes the campaign in one line.
func (v *Evidence) Summary() string {
	acknowledged, refused, electing := 0, 0, 0
	for _, d := range v.Deliveries {
		switch {
		case d.Status/100 == 2:
			acknowledged++
		case d.Excused:
			refused++
		case d.Electing:
			electing++
		}
	}
	return fmt.Sprintf("%d deliveries acknowledged, %d of them buffered; %d refused while the database and the buffer were away, and %d while the database was away and the buffer elected a leader; %d effects; the slowest answer took %s; faults: %v",
		acknowledged, v.Buffered, refused, electing, len(v.Applied), v.Slowest.Round(1e6), v.Faults)
}
