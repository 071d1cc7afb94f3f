package calls_test

import (
	"maps"
	"slices"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/calls"
)

// damage changes the evidence of a campaign in which everything was kept as a wrong implementation would have left it. It
// returns false if there is nothing to change.
type damage struct {
	kind   rig.Kind
	damage func(e *calls.Evidence) bool
}

var damages = map[string]damage{
	"a call that happens twice": {calls.Doubled, func(e *calls.Evidence) bool {
		for intent := range e.Works[calls.Once] {
			e.Works[calls.Once][intent]++
			return true
		}
		return false
	}},
	"a call that is lost": {calls.Lost, func(e *calls.Evidence) bool {
		for _, told := range e.Calls {
			delete(e.Works[calls.Same], told.Intent)
			return true
		}
		return false
	}},
	"a call that is answered and not recorded": {calls.Lost, func(e *calls.Evidence) bool {
		for key := range e.Calls {
			delete(e.Operations, key)
			return true
		}
		return false
	}},
	"another answer to one of the callers": {calls.Unequal, func(e *calls.Evidence) bool {
		for key, told := range e.Calls {
			if !e.Operations[key].Replayed {
				told.Documents["{}"]++
				return true
			}
		}
		return false
	}},
	"a result that says done and changes": {calls.Unequal, func(e *calls.Evidence) bool {
		for _, told := range e.Calls {
			told.Documents[`{"status":"done","one":1}`]++
			told.Documents[`{"status":"done","two":2}`]++
			return true
		}
		return false
	}},
	"an answer that names another operation": {calls.Unequal, func(e *calls.Evidence) bool {
		for _, told := range e.Calls {
			told.Events["another"]++
			return true
		}
		return false
	}},
	"a caller without an answer": {calls.Unanswered, func(e *calls.Evidence) bool {
		for _, told := range e.Calls {
			told.Callers++
			return true
		}
		return false
	}},
	"another payload that is taken": {calls.Overlooked, func(e *calls.Evidence) bool {
		if len(e.Differing) == 0 {
			return false
		}
		e.Differing[0].Answer.Status = 200
		return true
	}},
	"a refused key that is spent": {calls.Admitted, func(e *calls.Evidence) bool {
		for intent := range e.Refused {
			e.Operations["greedy:charge:the-key-of-"+intent] = calls.Operation{}
			return true
		}
		return false
	}},
	"an effect that is done and did not happen": {calls.Misstated, func(e *calls.Evidence) bool {
		for _, told := range e.Calls {
			if e.Works[calls.Once][told.Intent] == 1 {
				delete(e.Works[calls.Once], told.Intent)
				for key, o := range e.Operations {
					if e.Calls[key] != nil && e.Calls[key].Intent == told.Intent {
						o.States = maps.Clone(o.States)
						o.States[calls.Once] = "done"
						e.Operations[key] = o
					}
				}
				return true
			}
		}
		return false
	}},
	"an effect that goes on for ever": {calls.Unfinished, func(e *calls.Evidence) bool {
		for key, o := range e.Operations {
			if e.Calls[key] != nil {
				o.States = map[calls.Sink]string{calls.Once: "retry", calls.Same: "done"}
				e.Operations[key] = o
				return true
			}
		}
		return false
	}},
}

// copied is a copy of the evidence whose damage leaves the evidence as it is.
func copied(e *calls.Evidence) *calls.Evidence {
	out := *e
	out.Operations, out.Refused, out.Differing = maps.Clone(e.Operations), maps.Clone(e.Refused), slices.Clone(e.Differing)
	out.Works = map[calls.Sink]map[string]int{}
	for sink, works := range e.Works {
		out.Works[sink] = maps.Clone(works)
	}
	out.Calls = map[string]*calls.Told{}
	for key, told := range e.Calls {
		t := *told
		t.Documents, t.Events = maps.Clone(t.Documents), maps.Clone(t.Events)
		out.Calls[key] = &t
	}
	return &out
}
