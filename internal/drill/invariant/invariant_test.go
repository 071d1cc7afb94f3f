package invariant_test

import (
	"crypto/sha256"
	"maps"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/internal/drill/invariant"
	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// good returns the evidence of a drill in which everything was kept: two events about one subject, a conflict, a forged
// event, and two streams of three numbers each.
func good() *invariant.Evidence {
	e := &invariant.Evidence{
		Sent: map[string]ledger.Event{},
		Routes: []invariant.Route{
			{Name: "idempotent", Kind: invariant.Idempotent, Type: "paid", Keyed: true, Requests: map[string]ledger.Requests{}},
			{Name: "once", Kind: invariant.Once, Type: "paid", Keyed: true, Requests: map[string]ledger.Requests{}},
			{Name: "table", Kind: invariant.Table, Type: "paid", Keyed: true},
			{Name: "sequence", Kind: invariant.Sequence, Type: "step"},
			{Name: "latest", Kind: invariant.Latest, Type: "version"},
		},
		Stored:   invariant.Stored{Conflicts: map[string][]invariant.Conflict{}},
		Refusals: []invariant.Refusals{{Process: "node-1", Refused: 5, Counted: 5}},
		Faults:   3,
	}
	for i, state := range []string{"done", "duplicate"} {
		id := "paid_" + string(rune('1'+i))
		record(e, ledger.Event{ID: id, Type: "paid", Subject: "subject"})
		for _, r := range e.Routes[:3] {
			e.Effects = append(e.Effects, invariant.Effect{Event: id, Route: r.Name, State: state, Key: "key"})
		}
	}
	for i := range 2 {
		e.Routes[i].Requests["paid_1"] = ledger.Requests{
			Complete: 1, Answered: 1, Keys: map[string]int{"key": 1}, Bodies: map[[32]byte]int{e.Sent["paid_1"].SHA: 1}, Attempts: map[string]int{"1": 1},
		}
	}
	e.Applied = append(e.Applied, invariant.Applied{Route: "table", Event: "paid_1"})
	for i := range 3 {
		step, version := "step_"+string(rune('1'+i)), "version_"+string(rune('1'+i))
		record(e, ledger.Event{ID: step, Type: "step", Subject: step, Stream: "steps", Number: i + 1})
		record(e, ledger.Event{ID: version, Type: "version", Subject: version, Stream: "versions", Number: i + 1})
		e.Effects = append(e.Effects, invariant.Effect{Event: step, Route: "sequence", State: "done"})
		e.Applied = append(e.Applied, invariant.Applied{Route: "sequence", Event: step, Stream: "steps", Number: i + 1})
		state := "done"
		if i == 1 {
			state = "superseded"
		} else {
			e.Applied = append(e.Applied, invariant.Applied{Route: "latest", Event: version, Stream: "versions", Number: i + 1})
		}
		e.Effects = append(e.Effects, invariant.Effect{Event: version, Route: "latest", State: state})
	}
	// The route does not take number 4, and a person skipped number 5.
	record(e, ledger.Event{ID: "step_4", Type: "other", Subject: "step_4", Stream: "steps", Number: 4})
	e.Events[len(e.Events)-1].Admission = "unrouted"
	record(e, ledger.Event{ID: "step_5", Type: "step", Subject: "step_5", Stream: "steps", Number: 5})
	record(e, ledger.Event{ID: "step_6", Type: "step", Subject: "step_6", Stream: "steps", Number: 6})
	e.Effects = append(e.Effects, invariant.Effect{Event: "step_4", Route: "sequence", State: "skipped", Filtered: true},
		invariant.Effect{Event: "step_5", Route: "sequence", State: "skipped", Reason: "discarded"}, invariant.Effect{Event: "step_6", Route: "sequence", State: "done"})
	e.Applied = append(e.Applied, invariant.Applied{Route: "sequence", Event: "step_6", Stream: "steps", Number: 6})
	forged := ledger.Event{ID: "forged", Type: "paid", Forged: true, Refused: 1}
	e.Sent["forged"] = forged
	other := sha256.Sum256([]byte("another payload"))
	change(e, "paid_1", func(sent *ledger.Event) { sent.Conflicting = map[[32]byte]ledger.Conflict{other: {Acked: 1}} })
	e.Conflicts["paid_1"] = []invariant.Conflict{{SHA: other[:], BodySHA: other[:]}}
	return e
}

// record adds an event that was acknowledged and recorded.
func record(e *invariant.Evidence, sent ledger.Event) {
	sent.Body = []byte(sent.ID)
	sent.SHA, sent.Acked, sent.Recorded = sha256.Sum256(sent.Body), 2, 1
	e.Sent[sent.ID] = sent
	e.Events = append(e.Events, invariant.Event{EventID: sent.ID, SHA: sent.SHA[:], BodySHA: sent.SHA[:], Admission: "ok"})
}

// change changes what the senders know about an event.
func change(e *invariant.Evidence, id string, how func(*ledger.Event)) {
	sent := e.Sent[id]
	how(&sent)
	e.Sent[id] = sent
}

// receive changes what the target of a route has received for paid_1.
func receive(e *invariant.Evidence, route int, how func(*ledger.Requests)) {
	got := e.Routes[route].Requests["paid_1"].Clone()
	how(&got)
	e.Routes[route].Requests["paid_1"] = got
}

// effect returns the effect of an event on a route.
func effect(e *invariant.Evidence, event, route string) *invariant.Effect {
	for i := range e.Effects {
		if e.Effects[i].Event == event && e.Effects[i].Route == route {
			return &e.Effects[i]
		}
	}
	panic("there is no such effect")
}

func remove[T any](all []T, drop func(T) bool) []T { return slices.DeleteFunc(slices.Clone(all), drop) }

var damages = []struct {
	name  string
	want  rig.Kind
	wreck func(*invariant.Evidence)
}{
	{"an acknowledged event vanishes", invariant.Recorded, func(e *invariant.Evidence) { e.Events = e.Events[1:] }},
	{"a stored body changes", invariant.Recorded, func(e *invariant.Evidence) { e.Events[0].BodySHA = []byte("other") }},
	{"a stored hash changes", invariant.Recorded, func(e *invariant.Evidence) { e.Events[0].SHA = []byte("other") }},
	{"an event is recorded twice", invariant.RecordedOnce, func(e *invariant.Evidence) { e.Events = append(e.Events, e.Events[0]) }},
	{"two deliveries are called new", invariant.RecordedOnce, func(e *invariant.Evidence) { change(e, "paid_1", func(s *ledger.Event) { s.Recorded = 2 }) }},
	{"an effect is missing", invariant.RecordedOnce, func(e *invariant.Evidence) {
		e.Effects = remove(e.Effects, func(f invariant.Effect) bool { return f.Event == "step_1" })
	}},
	{"an event has two effects on a route", invariant.RecordedOnce, func(e *invariant.Evidence) { e.Effects = append(e.Effects, *effect(e, "paid_1", "table")) }},
	{"a forged event is acknowledged", invariant.Authentic, func(e *invariant.Evidence) { change(e, "forged", func(s *ledger.Event) { s.Acked = 1 }) }},
	{"a forged event is recorded", invariant.Authentic, func(e *invariant.Evidence) {
		e.Events = append(e.Events, invariant.Event{EventID: "forged", Admission: "ok"})
	}},
	{"an event comes from nowhere", invariant.Authentic, func(e *invariant.Evidence) {
		e.Events = append(e.Events, invariant.Event{EventID: "alien", Admission: "ok"})
	}},
	{"a request comes from nowhere", invariant.Authentic, func(e *invariant.Evidence) { e.Routes[0].Requests["alien"] = ledger.Requests{Complete: 1} }},
	{"a row comes from nowhere", invariant.Authentic, func(e *invariant.Evidence) {
		e.Applied = append(e.Applied, invariant.Applied{Route: "table", Event: "alien"})
	}},
	{"a signed delivery is refused", invariant.Answered, func(e *invariant.Evidence) { change(e, "paid_1", func(s *ledger.Event) { s.Refused = 1 }) }},
	{"a receipt does not fit", invariant.Answered, func(e *invariant.Evidence) { change(e, "paid_1", func(s *ledger.Event) { s.OddAnswers = 1 }) }},
	{"an event with a route is admitted as one without", invariant.Answered, func(e *invariant.Evidence) { e.Events[0].Admission = "unrouted" }},
	{"an event is admitted as unusable", invariant.Answered, func(e *invariant.Evidence) { e.Events[0].Admission = "unusable" }},
	{"a conflict is not kept", invariant.ConflictKept, func(e *invariant.Evidence) { delete(e.Conflicts, "paid_1") }},
	{"a conflict changes", invariant.ConflictKept, func(e *invariant.Evidence) { e.Conflicts["paid_1"][0].BodySHA = []byte("other") }},
	{"too many conflicts are kept", invariant.ConflictKept, func(e *invariant.Evidence) {
		e.Conflicts["paid_1"] = slices.Repeat(e.Conflicts["paid_1"], 6)
	}},
	{"an effect arrives under a second key", invariant.OneKey, func(e *invariant.Evidence) { receive(e, 0, func(r *ledger.Requests) { r.Keys["other"]++ }) }},
	{"an effect arrives with other bytes", invariant.OneKey, func(e *invariant.Evidence) { receive(e, 1, func(r *ledger.Requests) { r.Bodies[[32]byte{1}]++ }) }},
	{"an effect is done and was never sent", invariant.OneKey, func(e *invariant.Evidence) { delete(e.Routes[0].Requests, "paid_1") }},
	{"an effect is sent twice to a target that cannot deduplicate", invariant.AtMostOnce, func(e *invariant.Evidence) {
		receive(e, 1, func(r *ledger.Requests) { r.Complete, r.Answered = 2, 2 })
	}},
	{"an effect is done and never arrived", invariant.AtMostOnce, func(e *invariant.Evidence) { delete(e.Routes[1].Requests, "paid_1") }},
	{"an unknown outcome is called done", invariant.AtMostOnce, func(e *invariant.Evidence) { receive(e, 1, func(r *ledger.Requests) { r.Answered = 0 }) }},
	{"a refusal that precedes the work is indeterminate", invariant.AtMostOnce, func(e *invariant.Evidence) {
		effect(e, "paid_1", "once").State, effect(e, "paid_1", "once").Reason = "indeterminate", "status_429"
	}},
	{"an effect in the database happens twice", invariant.ExactlyOnce, func(e *invariant.Evidence) { e.Applied = append(e.Applied, e.Applied[0]) }},
	{"an effect in the database is lost", invariant.ExactlyOnce, func(e *invariant.Evidence) { e.Applied = e.Applied[1:] }},
	{"a duplicate is applied too", invariant.ExactlyOnce, func(e *invariant.Evidence) {
		e.Applied = append(e.Applied, invariant.Applied{Route: "table", Event: "paid_2"})
	}},
	{"two effects with one key happen", invariant.OneOwner, func(e *invariant.Evidence) { effect(e, "paid_2", "once").State = "done" }},
	{"two effects with one key wait for each other", invariant.OneOwner, func(e *invariant.Evidence) { effect(e, "paid_1", "once").State = "duplicate" }},
	{"a duplicate is sent too", invariant.OneOwner, func(e *invariant.Evidence) { e.Routes[0].Requests["paid_2"] = e.Routes[0].Requests["paid_1"] }},
	{"an older number is applied after a newer one", invariant.InOrder, func(e *invariant.Evidence) { slices.Reverse(e.Applied) }},
	{"a number is skipped", invariant.InOrder, func(e *invariant.Evidence) {
		e.Applied = remove(e.Applied, func(a invariant.Applied) bool { return a.Event == "step_2" })
	}},
	{"a number is skipped, and nobody decided that", invariant.InOrder, func(e *invariant.Evidence) { effect(e, "step_5", "sequence").Reason = "sequence_late" }},
	{"a number is given up by a route that waits", invariant.InOrder, func(e *invariant.Evidence) {
		effect(e, "step_5", "sequence").State, effect(e, "step_5", "sequence").Reason = "superseded", "sequence_late"
	}},
	{"the newest version is not applied", invariant.InOrder, func(e *invariant.Evidence) {
		e.Applied = remove(e.Applied, func(a invariant.Applied) bool { return a.Event == "version_3" })
	}},
	{"no version is applied", invariant.InOrder, func(e *invariant.Evidence) {
		e.Applied = remove(e.Applied, func(a invariant.Applied) bool { return a.Route == "latest" })
	}},
	{"an effect is never finished", invariant.Settled, func(e *invariant.Evidence) { effect(e, "step_3", "sequence").State = "held" }},
	{"an effect that can be repeated waits for a person", invariant.Settled, func(e *invariant.Evidence) {
		effect(e, "paid_1", "idempotent").State, effect(e, "paid_1", "idempotent").Reason = "indeterminate", "timeout"
	}},
	{"an effect waits for a person without a reason", invariant.Settled, func(e *invariant.Evidence) { effect(e, "paid_1", "once").State = "indeterminate" }},
	{"a refusal is not counted", invariant.Counted, func(e *invariant.Evidence) { e.Refusals[0].Counted-- }},
	{"a process ends by itself", invariant.Survives, func(e *invariant.Evidence) { e.Ended = []string{"node-1 ended by itself"} }},
}

// TestEveryInvariantNoticesDamage damages the ledgers and the tables in every way that an invariant speaks of. An
// invariant that has never been seen to fail proves nothing.
func TestEveryInvariantNoticesDamage(t *testing.T) {
	t.Parallel()
	unseen := map[rig.Kind]bool{}
	results := invariant.Check(good())
	for i := range results {
		unseen[results[i].Name] = true
		if results[i].Checked == 0 {
			t.Errorf("%s compared nothing", results[i].Name)
		}
	}
	for _, v := range invariant.Violations(results) {
		t.Errorf("without damage: %s", v)
	}
	for _, d := range damages {
		e := good()
		d.wreck(e)
		found := invariant.Violations(invariant.Check(e))
		if rig.CountKind(found, d.want) == 0 {
			t.Errorf("%s: not noticed by %s; found %v", d.name, d.want, found)
		}
		delete(unseen, d.want)
	}
	for _, name := range slices.Sorted(maps.Keys(unseen)) {
		t.Errorf("no damage is done to %s", name)
	}
}
