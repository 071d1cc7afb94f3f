package invariant

import (
	"slices"

	"github.com/oncegate/oncegate/internal/drill/ledger"
)

// The states of effects that the invariants name.
const (
	done          = "done"
	duplicate     = "duplicate"
	superseded    = "superseded"
	skipped       = "skipped"
	indeterminate = "indeterminate"
)

func checkOneKey(e *evidence, f *finding) {
	e.effectsOf(func(effect *Effect, r *Route, got ledger.Requests) {
		f.checked++
		if r.Kind == Mail && (len(got.Keys) > 1 || len(got.Bodies) > 1 || got.Keys[""] > 0) {
			f.addf(effect.Event, "is %d different messages", max(len(got.Keys), len(got.Bodies)))
		}
		if r.Kind == Mail {
			return
		}
		for key := range got.Keys {
			if key != effect.Key {
				f.addf(effect.Event, "arrived at %s under another key than its own", r.Name)
			}
		}
		for sum := range got.Bodies {
			if sum != e.Sent[effect.Event].SHA {
				f.addf(effect.Event, "arrived at %s with other bytes", r.Name)
			}
		}
		if r.Kind == Idempotent && effect.State == done && got.Answered == 0 {
			f.addf(effect.Event, "is done, and %s never answered it with success: it has the whole request %d times", r.Name, got.Complete)
		}
	}, Idempotent, Once, Mail)
}

// unknownOutcomes are the reasons that an effect may have for an unknown outcome: the worker was killed, paused or cut
// off, or the target had the whole request and did not answer it with success, or the database lost its last commits in a
// failover.
var unknownOutcomes = []string{"lease_expired", "stopped", "status_503", "connection_lost", "timeout", "reply_malformed", "restored"}

func checkAtMostOnce(e *evidence, f *finding) {
	e.effectsOf(func(effect *Effect, r *Route, got ledger.Requests) {
		f.checked++
		switch {
		case got.Complete > 1:
			f.addf(effect.Event, "arrived at %s %d times", r.Name, got.Complete)
		case effect.State == done && got.Complete == 0:
			f.addf(effect.Event, "is done and never arrived at %s", r.Name)
		case effect.State == done && got.Answered == 0:
			f.addf(effect.Event, "is called done although %s never answered it with success", r.Name)
		case effect.State == indeterminate && !slices.Contains(unknownOutcomes, effect.Reason):
			f.addf(effect.Event, "is indeterminate for the reason %q, which leaves no outcome unknown", effect.Reason)
		}
	}, Once, Mail)
}

func checkExactlyOnce(e *evidence, f *finding) {
	e.effectsOf(func(effect *Effect, r *Route, _ ledger.Requests) {
		f.checked++
		want := 0
		if effect.State == done {
			want = 1
		}
		if n := e.applied[[2]string{r.Name, effect.Event}]; n != want {
			f.addf(effect.Event, "is %s and was applied %d times by %s", effect.State, n, r.Name)
		}
	}, Table, Sequence, Latest)
}

func checkOneOwner(e *evidence, f *finding) {
	type key struct{ route, subject string }
	owners := map[key][]string{} // of each key; a key with no owner has only duplicates
	states := map[string]string{}
	e.effectsOf(func(effect *Effect, r *Route, got ledger.Requests) {
		if !r.Keyed {
			if effect.State == duplicate {
				f.addf(effect.Event, "is a duplicate on route %s, which has no effect key", r.Name)
			}
			return
		}
		at := key{r.Name, e.Sent[effect.Event].Subject}
		if effect.State != duplicate {
			owners[at] = append(owners[at], effect.Event)
			states[effect.Event] = effect.State
			return
		}
		if owners[at] == nil {
			owners[at] = []string{}
		}
		if got.Complete > 0 {
			f.addf(effect.Event, "is a duplicate and arrived at %s %d times", r.Name, got.Complete)
		}
	}, Idempotent, Once, Mail, Table, Sequence, Latest)
	for at, events := range owners {
		f.checked++
		switch {
		case len(events) == 0:
			f.addf("", "%s has only duplicates on route %s", at.subject, at.route)
		case len(events) > 1:
			f.addf(events[0], "is about the same subject as %v on route %s, and neither is a duplicate but %s and %s", events[1:], at.route, states[events[0]], states[events[1]])
		}
	}
}

func checkInOrder(e *evidence, f *finding) {
	type stream struct{ route, name string }
	applied := map[stream][]Applied{}
	for _, a := range e.Applied {
		if r := e.route[a.Route]; r != nil && (r.Kind == Sequence || r.Kind == Latest) {
			applied[stream{a.Route, a.Stream}] = append(applied[stream{a.Route, a.Stream}], a)
		}
	}
	type place struct {
		stream
		number int
	}
	newest := map[stream]int{} // of the acknowledged numbers
	passed := map[place]bool{} // that need not be applied: the route does not take them or gave them up, or a person skipped them
	e.effectsOf(func(effect *Effect, r *Route, _ ledger.Requests) {
		sent := e.Sent[effect.Event]
		at := stream{r.Name, sent.Stream}
		if r.Kind == Latest && sent.Acked > 0 {
			newest[at] = max(newest[at], sent.Number)
		}
		if effect.Filtered || effect.State == skipped && effect.Reason == "discarded" || r.GivesUp && effect.Reason == "sequence_late" {
			passed[place{at, sent.Number}] = true
		}
	}, Sequence, Latest)
	for at, rows := range applied {
		last := 0
		for _, row := range rows {
			f.checked++
			next := last + 1
			for passed[place{at, next}] {
				next++
			}
			switch {
			case row.Number <= last:
				f.addf(row.Event, "is number %d of %s and was applied after number %d", row.Number, at.name, last)
			case e.route[at.route].Kind == Sequence && row.Number != next:
				f.addf(row.Event, "is number %d of %s and was applied after number %d, with a gap", row.Number, at.name, last)
			}
			last = max(last, row.Number)
		}
		if e.route[at.route].Kind == Latest && last < newest[at] {
			f.addf(rows[len(rows)-1].Event, "is number %d of %s and the last one applied; number %d was acknowledged", last, at.name, newest[at])
		}
		delete(newest, at)
	}
	for at, number := range newest {
		f.addf("", "%s: no number was applied; number %d was acknowledged", at.name, number)
	}
}

func checkSettled(e *evidence, f *finding) {
	for i := range e.Evidence.Effects {
		effect := &e.Evidence.Effects[i]
		f.checked++
		switch effect.State {
		case done, duplicate, superseded, skipped:
			continue
		case indeterminate:
			if r := e.route[effect.Route]; r != nil && (r.Kind == Once || r.Kind == Mail) && effect.Reason != "" {
				continue // a person decides
			}
		}
		f.addf(effect.Event, "has an effect on route %s that is %s %s after %d attempts", effect.Route, effect.State, effect.Reason, effect.Attempts)
	}
}
