package brokers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violation.
const (
	Lost       rig.Kind = "lost"
	Doubled    rig.Kind = "doubled"
	Invented   rig.Kind = "invented"
	Unordered  rig.Kind = "unordered"
	Unfinished rig.Kind = "unfinished"
)

// Check returns the violations. The campaign does not know in which order the publisher recorded the deliveries of one cycle,
// because it sends them at the same time. It checks the order of cycles, because each cycle starts when the one before it was
// acknowledged.
func Check(v *Evidence) (found []rig.Violation) {
	add := func(kind rig.Kind, format string, args ...any) {
		found = append(found, rig.Violation{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	}
	times := map[string]int{}
	last := map[string]int{}
	for _, a := range v.Applied {
		times[a.Number]++
		if v.Acknowledged[a.Number] != a.Customer {
			add(Invented, "delivery %s of customer %s was applied, and it was never sent", a.Number, a.Customer)
		}
		n, _ := strconv.Atoi(a.Number)
		if cycle := n / perCycle; cycle < last[a.Customer] {
			add(Unordered, "delivery %s of customer %s was applied after one of a later cycle", a.Number, a.Customer)
		} else {
			last[a.Customer] = cycle
		}
	}
	for _, number := range slices.Sorted(maps.Keys(v.Acknowledged)) {
		switch n := times[number]; {
		case n == 0:
			add(Lost, "delivery %s was acknowledged and never applied", number)
		case n > 1:
			add(Doubled, "delivery %s was applied %d times", number, n)
		}
	}
	if v.Unfinished > 0 {
		add(Unfinished, "%d effects of the publisher are not done", v.Unfinished)
	}
	return found
}

// Repeated returns how many messages of the broker are repetitions of another one.
func Repeated(v *Evidence) int {
	distinct := map[string]bool{}
	for _, id := range v.Messages {
		distinct[id] = true
	}
	return len(v.Messages) - len(distinct)
}
