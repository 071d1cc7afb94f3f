package drill

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
)

// Report is what a drill did and found.
type Report struct {
	// Run names the drill. It is a part of the name of its schema and of every event's id.
	Run string `json:"run"`

	// Held says that every invariant held.
	Held bool `json:"held"`

	// Early says that the drill was ended before its time.
	Early bool `json:"ended_early"`

	Seed    uint64  `json:"seed"`
	Repeat  string  `json:"repeat"` // the command that repeats the drill, without the database
	Seconds float64 `json:"seconds"`

	// Schema and Logs name the schema and the directory that the drill kept. They are empty if it removed both.
	Schema string `json:"schema,omitempty"`
	Logs   string `json:"logs,omitempty"`

	Sent       ledger.Counts      `json:"sent"`
	Faults     map[Fault]int      `json:"faults"`
	Effects    []EffectCount      `json:"effects"`
	Invariants []invariant.Result `json:"invariants"`
}

// EffectCount counts the effects of a route in one state. Requests counts the requests that its target got for them.
type EffectCount struct {
	Route    string `json:"route"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Effects  int    `json:"effects"`
	Requests int    `json:"requests"`
}

// report checks the evidence and sums up.
func (d *drill) report(e *invariant.Evidence, early bool) *Report {
	o := &d.options
	r := &Report{
		Run: d.run, Early: early, Seed: o.Seed, Sent: d.sent.Counts(), Faults: d.faults, Effects: countEffects(e), Invariants: invariant.Check(e),
		Repeat: fmt.Sprintf("oncegate drill --minutes %.4g --rate %d --nodes %d --faults %s --seed %d", o.Length.Minutes(), o.Rate, o.Nodes, JoinFaults(o.Faults), o.Seed),
	}
	r.Held = len(invariant.Violations(r.Invariants)) == 0
	return r
}

func countEffects(e *invariant.Evidence) []EffectCount {
	counts := map[EffectCount]*EffectCount{}
	requests := map[string]map[string]ledger.Requests{}
	for i := range e.Routes {
		requests[e.Routes[i].Name] = e.Routes[i].Requests
	}
	for i := range e.Effects {
		effect := &e.Effects[i]
		if effect.Filtered {
			continue
		}
		kind := EffectCount{Route: effect.Route, State: effect.State}
		if effect.State == "indeterminate" || effect.State == "dead" || effect.State == "held" {
			kind.Reason = effect.Reason
		}
		if counts[kind] == nil {
			counts[kind] = &EffectCount{Route: kind.Route, State: kind.State, Reason: kind.Reason}
		}
		counts[kind].Effects++
		counts[kind].Requests += requests[effect.Route][effect.Event].Complete
	}
	all := make([]EffectCount, 0, len(counts))
	for _, c := range counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b EffectCount) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
