package calls

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// The kinds of violations.
const (
	// Doubled: a sink did the work of an intent more than once.
	Doubled rig.Kind = "doubled"
	// Lost: a call was answered, and the sink that deduplicates has not done its work.
	Lost rig.Kind = "lost"
	// Misstated: an effect's state does not fit what the sink did.
	Misstated rig.Kind = "misstated"
	// Unequal: callers of one call were given different answers.
	Unequal rig.Kind = "unequal"
	// Unanswered: a caller got no result.
	Unanswered rig.Kind = "unanswered"
	// Admitted: a call was recorded that was refused, or under another key than its own.
	Admitted rig.Kind = "admitted"
	// Overlooked: a payload that differs was not refused.
	Overlooked rig.Kind = "overlooked"
	// Unfinished: an effect did not come to rest.
	Unfinished rig.Kind = "unfinished"
)

// Check compares what was told with what was done.
func Check(e *Evidence) []rig.Violation {
	var out []rig.Violation
	violate := func(kind rig.Kind, format string, args ...any) {
		out = append(out, rig.NewViolation(kind, format, args...))
	}
	intents := map[string][]string{} // the keys of each
	for _, key := range slices.Sorted(maps.Keys(e.Calls)) {
		told := e.Calls[key]
		intents[told.Intent] = append(intents[told.Intent], key)
		results, done := 0, 0
		for document, n := range told.Documents {
			results += n
			if strings.Contains(document, `"status":"done"`) {
				done++
			}
		}
		switch {
		// A replay changes the result of what had failed. One that says done never changes.
		case done > 1, len(told.Documents) > 1 && !e.Operations[key].Replayed:
			violate(Unequal, "%s: %d different results: %s", key, len(told.Documents), strings.Join(slices.Sorted(maps.Keys(told.Documents)), " | "))
		case len(told.Events) > 1:
			violate(Unequal, "%s: the answers name %d operations", key, len(told.Events))
		case results != told.Callers || len(told.Other) > 0:
			violate(Unanswered, "%s: %d of %d callers have a result; others have %q", key, results, told.Callers, rig.List(told.Other))
		}
		operation, ok := e.Operations[key]
		switch {
		case !ok:
			violate(Lost, "%s was answered, and is not in the database", key)
		case told.Events[operation.ID] == 0:
			violate(Unequal, "%s: no answer names operation %s", key, operation.ID)
		}
	}
	for _, sink := range []Sink{Once, Same} {
		for intent, n := range e.Works[sink] {
			switch {
			case n > 1:
				violate(Doubled, "%s did the work of %s %d times (%s)", sink, intent, n, strings.Join(intents[intent], ", "))
			case e.Refused[intent]:
				violate(Admitted, "%s did the work of %s, which was refused", sink, intent)
			}
		}
	}
	for _, intent := range slices.Sorted(maps.Keys(intents)) {
		out = append(out, checkIntent(e, intent, intents[intent])...)
	}
	for key, o := range e.Operations {
		if e.Calls[key] == nil && e.Refused[refusedIntent(key)] {
			violate(Admitted, "%s is operation %s, and was refused", key, o.ID)
		}
	}
	for i := range e.Differing {
		d := &e.Differing[i]
		if d.Answer.Status != 409 || d.Answer.Code != "payload_differs" {
			violate(Overlooked, "%s: another payload was answered with %d %s", d.Key, d.Answer.Status, d.Answer.Document)
		}
		if told := e.Calls[d.Key]; told != nil && d.Answer.Event != "" && told.Events[d.Answer.Event] == 0 {
			violate(Unequal, "%s: the refusal of another payload names operation %s", d.Key, d.Answer.Event)
		}
	}
	return out
}

// refusedIntent is the intent of a call that the flood made, by its key.
func refusedIntent(key string) string {
	_, intent, _ := strings.Cut(key, "the-key-of-")
	return intent
}

// checkIntent compares the effects of all calls of one intent, a call and its follow-ups, with the sinks.
func checkIntent(e *Evidence, intent string, keys []string) (out []rig.Violation) {
	for _, sink := range []Sink{Once, Same} {
		states := map[string]int{}
		for _, key := range keys {
			if state := e.Operations[key].States[sink]; state != "" {
				states[state]++
			}
		}
		works := e.Works[sink][intent]
		what := fmt.Sprintf("%s at %s: effects %v, and the sink has done it %d times (%s)", intent, sink, states, works, strings.Join(keys, ", "))
		switch {
		case states["pending"]+states["claimed"]+states["retry"]+states["held"] > 0:
			out = append(out, rig.NewViolation(Unfinished, "%s", what))
		case sink == Same && (states["done"] != 1 || works != 1):
			out = append(out, rig.NewViolation(Lost, "%s", what))
		case states["done"] > works, states["done"] == 0 && states["indeterminate"] == 0 && works > 0:
			out = append(out, rig.NewViolation(Misstated, "%s", what))
		}
	}
	return out
}
