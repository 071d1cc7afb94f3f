package invariant

import (
	"cmp"
	"slices"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The names of the invariants.
const (
	Recorded     rig.Kind = "acknowledged-is-recorded"
	RecordedOnce rig.Kind = "recorded-once"
	Authentic    rig.Kind = "forged-is-never-recorded"
	Answered     rig.Kind = "answers-fit"
	ConflictKept rig.Kind = "conflict-is-kept"
	OneKey       rig.Kind = "one-key-and-equal-bytes"
	AtMostOnce   rig.Kind = "at-most-once"
	ExactlyOnce  rig.Kind = "exactly-once"
	OneOwner     rig.Kind = "one-effect-for-each-key"
	InOrder      rig.Kind = "in-order"
	Settled      rig.Kind = "nothing-is-stuck"
	Counted      rig.Kind = "refusals-are-counted"
	Survives     rig.Kind = "processes-survive"
)

// Invariant is a promise that every drill checks.
type Invariant struct {
	Name rig.Kind

	// Says is the promise in one sentence.
	Says string

	check func(*evidence, *finding)
}

// All returns the invariants in the order in which a report lists them.
func All() []Invariant {
	return []Invariant{
		{Recorded, "An acknowledged event is recorded with the bytes that were sent.", checkRecorded},
		{RecordedOnce, "An event is recorded once, has one effect for each route, and is called new once.", checkRecordedOnce},
		{Authentic, "No event with a wrong signature is recorded or acknowledged, and every recorded event was sent.", checkAuthentic},
		{Answered, "A signed delivery is never refused, and every receipt says what happened.", checkAnswered},
		{ConflictKept, "A conflicting payload that was acknowledged is kept, up to the newest five of an event.", checkConflicts},
		{OneKey, "A target receives an effect under one key and with the bytes of its event.", checkOneKey},
		{AtMostOnce, "A target that cannot deduplicate receives an effect at most once, and an unknown outcome is called indeterminate.", checkAtMostOnce},
		{ExactlyOnce, "An effect in the database happens exactly once.", checkExactlyOnce},
		{OneOwner, "Of the effects with one key, one happens and the others are its duplicates.", checkOneOwner},
		{InOrder, "No number is applied after a later one, and a contiguous sequence has no gap.", checkInOrder},
		{Settled, "Every effect is settled, or waits for a person for a named reason.", checkSettled},
		{Counted, "A process counts every delivery that it refuses.", checkCounted},
		{Survives, "A process survives every fault that does not kill it.", checkSurvives},
	}
}

// Result says how many things were compared for an invariant, and what violated it.
type Result struct {
	Name rig.Kind `json:"name"`
	Says string   `json:"says"`

	// Checked is how many things were compared. An invariant with 0 was not tried.
	Checked int `json:"checked"`

	Violations []rig.Violation `json:"violations"`
}

// Check checks all invariants.
func Check(e *Evidence) []Result {
	prepared := prepare(e)
	all := All()
	results := make([]Result, len(all))
	for i := range all {
		f := &finding{name: all[i].Name, violations: []rig.Violation{}} // not nil, so that JSON has a list
		all[i].check(prepared, f)
		slices.SortFunc(f.violations, func(a, b rig.Violation) int {
			return cmp.Or(cmp.Compare(a.Event, b.Event), cmp.Compare(a.Detail, b.Detail))
		})
		results[i] = Result{Name: all[i].Name, Says: all[i].Says, Checked: f.checked, Violations: f.violations}
	}
	return results
}

// Violations returns the violations of all results.
func Violations(results []Result) []rig.Violation {
	var all []rig.Violation
	for i := range results {
		all = append(all, results[i].Violations...)
	}
	return all
}

// finding is what one invariant has found so far.
type finding struct {
	name       rig.Kind
	checked    int
	violations []rig.Violation
}

// addf adds a violation. event may be empty.
func (f *finding) addf(event, format string, args ...any) {
	v := rig.NewViolation(f.name, format, args...)
	v.Event = event
	f.violations = append(f.violations, v)
}

// evidence is the evidence with what several invariants look up.
type evidence struct {
	*Evidence
	recorded map[string]*Event         // by event id
	route    map[string]*Route         // by name
	applied  map[[2]string]int         // rows by route and event
	effects  map[string]map[string]int // effects of an event by route
}

func prepare(e *Evidence) *evidence {
	p := &evidence{Evidence: e, recorded: map[string]*Event{}, route: map[string]*Route{}, applied: map[[2]string]int{}, effects: map[string]map[string]int{}}
	for i := range e.Events {
		p.recorded[e.Events[i].EventID] = &e.Events[i]
	}
	for i := range e.Routes {
		p.route[e.Routes[i].Name] = &e.Routes[i]
	}
	for _, a := range e.Applied {
		p.applied[[2]string{a.Route, a.Event}]++
	}
	for i := range e.Effects {
		f := &e.Effects[i]
		if f.Filtered {
			continue
		}
		if p.effects[f.Event] == nil {
			p.effects[f.Event] = map[string]int{}
		}
		p.effects[f.Event][f.Route]++
	}
	return p
}

// effectsOf calls do for each effect whose target has one of the kinds.
func (e *evidence) effectsOf(do func(*Effect, *Route, ledger.Requests), kinds ...Kind) {
	for i := range e.Evidence.Effects {
		f := &e.Evidence.Effects[i]
		if r := e.route[f.Route]; r != nil && slices.Contains(kinds, r.Kind) {
			do(f, r, r.Requests[f.Event])
		}
	}
}
