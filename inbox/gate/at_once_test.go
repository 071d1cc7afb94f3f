package gate_test

import (
	"fmt"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// A new event takes one round trip. The first repetition takes three, because the gate expected a new event, and the next
// ones two.
func TestANewEventTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	var calls inboxtest.Fault // strikes never
	b := setup(t, func(c *gate.Config) { c.Acquire = calls.Acquire(c.Pool) })
	b.Start(t)
	for i, step := range []struct {
		id      string
		outcome inbox.Outcome
		trips   int
	}{
		{"evt_1", inbox.Recorded, 1}, {"evt_2", inbox.Recorded, 1}, {"evt_1", inbox.Duplicate, 3}, {"evt_1", inbox.Duplicate, 2},
		{"evt_3", inbox.Recorded, 2}, {"evt_4", inbox.Recorded, 1},
	} {
		before := calls.Calls()
		receipt, err := b.Gate.Accept(t.Context(), inboxtest.Admission(b.Source, step.id))
		if err != nil || receipt.Items[0].Outcome != step.outcome {
			t.Fatalf("step %d: %+v, %v, want %s", i, receipt, err, step.outcome)
		}
		if got := calls.Calls() - before; got != step.trips {
			t.Errorf("step %d: %d round trips, want %d", i, got, step.trips)
		}
	}
}

// orphans counts what belongs to no recorded event, and what an event lacks or has twice.
const orphans = `
SELECT (SELECT count(*) FROM inbox_body b WHERE NOT EXISTS (SELECT FROM inbox_event e WHERE e.body_id = b.id)),
    (SELECT count(*) FROM effect f WHERE NOT EXISTS (SELECT FROM inbox_event e WHERE e.id = f.event_id)),
    (SELECT count(*) FROM river_job j WHERE NOT EXISTS (SELECT FROM effect f WHERE f.job_id = j.id AND j.args->>'effect' = f.id::text)),
    (SELECT count(*) FROM event_label_batch l, unnest(l.event_id) AS event (id) WHERE NOT EXISTS (SELECT FROM inbox_event e WHERE e.id = event.id)),
    (SELECT count(*) FROM stream s WHERE NOT EXISTS (SELECT FROM effect f WHERE f.route_id = s.route_id AND f.sequence_key_hash = s.key_hash)),
    (SELECT count(*) FROM inbox_event e WHERE NOT EXISTS (SELECT FROM inbox_body b WHERE b.id = e.body_id)
        OR (SELECT count(*) FROM effect f JOIN river_job j ON j.id = f.job_id WHERE f.event_id = e.id) <> 2
        OR (SELECT count(*) FROM event_label_batch l, unnest(l.event_id) AS event (id) WHERE event.id = e.id) <> 1)`

// A group has new events, one that was recorded before, and one twice. Whichever of its calls fails, before or after it
// takes effect, each event ends up recorded once with all that belongs to it, nothing belongs to anything else, and
// each was answered as recorded at most once.
func TestNewEventsBesideRepeatedOnes(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before the call": false, "after the call": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, last := 1, false; !last; n++ {
				last = !besideRepeated(t, &inboxtest.Fault{N: n, After: after})
				if t.Failed() {
					t.Fatalf("the fault was at call %d", n)
				}
				if last && n < 4 {
					t.Errorf("only %d calls could fail: the group was not written at once and then in steps", n-1)
				}
			}
		})
	}
}

// A batch whose first event is known keeps the body for the events that are new.
func TestABatchWhoseFirstEventIsKnown(t *testing.T) {
	t.Parallel()
	b := richSetup(t, new(inboxtest.Fault))
	b.known(t, inboxtest.Admission(b.Source, "evt_1"))
	batch := inboxtest.Batch(b.Source, "evt_1", "evt_2", "evt_3")
	for i := range batch.Events {
		batch.Events[i].SequenceKey = batch.Events[i].EventID
	}
	answer := b.Together(t, batch)[0]
	if answer.Err != nil || answer.Receipt.Items[0].Outcome != inbox.Duplicate || answer.Receipt.Items[1].Outcome != inbox.Recorded {
		t.Errorf("%+v, %v", answer.Receipt, answer.Err)
	}
	b.whole(t, 3)
}

// Statements have another form for many rows. What they write differs in nothing from what they write for one row.
func TestManyEventsAreWrittenAsOneIs(t *testing.T) {
	t.Parallel()
	const many = gate.FewRows + 1
	b := richSetup(t, new(inboxtest.Fault))
	delivery := func(i int) *inbox.Admission {
		a := inboxtest.Admission(b.Source, fmt.Sprintf("evt_%04d", i))
		a.Events[0].SequenceKey = fmt.Sprintf("key_%04d", i)
		return a
	}
	group := make([]*inbox.Admission, many)
	for i := range group {
		group[i] = delivery(i)
	}
	for i, answer := range b.Together(t, group...) {
		if answer.Err != nil {
			t.Fatalf("delivery %d: %v", i, answer.Err)
		}
	}
	if n := b.Gate.Stats().Groups; n != 1 {
		t.Fatalf("%d groups: the test shows nothing", n)
	}
	if _, err := b.Gate.Accept(t.Context(), delivery(many)); err != nil {
		t.Fatal(err)
	}
	b.whole(t, many+1)
	for table, own := range map[string]string{
		"inbox_event": "id,event_id,received_at,body_id,body_sha256,canonical_sha256", "inbox_body": "id,body",
		"effect WHERE route_id % 2 = 0": "id,event_id,job_id,idempotency_key,next_at,sequence_number,sequence_key_hash",
		"effect WHERE route_id % 2 = 1": "id,event_id,job_id,idempotency_key,next_at,sequence_number,sequence_key_hash",
		"river_job":                     "id,args,created_at,scheduled_at", "stream": "id,key_hash,key_label,started_at,updated_at",
	} {
		var forms int
		b.Scan(t, `SELECT count(DISTINCT to_jsonb(x) - '{`+own+`}'::text[]) FROM (SELECT * FROM `+table+`) x`, &forms)
		if forms != 1 {
			t.Errorf("%s has rows of %d forms, want one", table, forms)
		}
	}
}

// richSetup makes a gate with one flusher for a source with a label, an unordered route and an ordered one.
func richSetup(t *testing.T, fault *inboxtest.Fault) *bundle {
	t.Helper()
	b := setup(t, func(c *gate.Config) { c.Flushers, c.Acquire = 1, fault.Acquire(c.Pool) })
	ordered := b.Source.Routes[0]
	ordered.ID, ordered.Name, ordered.Order = ordered.ID+1, "ordered", sequence.Policy{Mode: sequence.Arrival}
	b.Source.Routes = append(b.Source.Routes, ordered)
	b.Source.Labels = func(a *inbox.Admission, event int) []inbox.Label {
		return []inbox.Label{{Name: "order", Value: a.Events[event].EventID}}
	}
	return b
}

// known records an event by another gate on the same schema.
func (b *bundle) known(t *testing.T, a *inbox.Admission) {
	t.Helper()
	before := setup(t, func(c *gate.Config) { c.Pool, c.Clock = b.GatePool, inboxtest.Clock(t, b.Pool) })
	before.Start(t)
	a.Events[0].SequenceKey = "known"
	if _, err := before.Gate.Accept(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// whole fails unless there are n events, all of them complete, and nothing else.
func (b *bundle) whole(t *testing.T, n int) {
	t.Helper()
	var events, bodies, effects, jobs, labels, streams, incomplete int
	b.Scan(t, `SELECT count(*) FROM inbox_event`, &events)
	b.Scan(t, orphans, &bodies, &effects, &jobs, &labels, &streams, &incomplete)
	if events != n {
		t.Errorf("%d events, want %d", events, n)
	}
	if got := fmt.Sprint(bodies, effects, jobs, labels, streams, incomplete); got != "0 0 0 0 0 0" {
		t.Errorf("without an event: %d bodies, %d effects, %d jobs, %d labels, %d streams; incomplete: %d events", bodies, effects, jobs, labels, streams, incomplete)
	}
}

// besideRepeated reports whether the fault has struck.
func besideRepeated(t *testing.T, fault *inboxtest.Fault) bool {
	t.Helper()
	b := richSetup(t, fault)
	delivery := func(id string) *inbox.Admission {
		a := inboxtest.Admission(b.Source, id)
		a.Events[0].SequenceKey = "key of " + id
		return a
	}
	b.known(t, delivery("evt_known"))
	ids := []string{"evt_a", "evt_known", "evt_b", "evt_b", "evt_c"}
	group := make([]*inbox.Admission, len(ids))
	for i, id := range ids {
		group[i] = delivery(id)
	}
	recorded := map[string]int{}
	for i, answer := range b.Together(t, group...) {
		for tries := 0; answer.Err != nil && tries < 3; tries++ { // as the sender would
			answer.Receipt, answer.Err = b.Gate.Accept(t.Context(), delivery(ids[i]))
		}
		if answer.Err != nil {
			t.Fatalf("%s: %v", ids[i], answer.Err)
		}
		if answer.Receipt.Items[0].Outcome == inbox.Recorded {
			recorded[ids[i]]++
		}
	}
	var deliveries int
	b.Scan(t, `SELECT min(deliveries) FROM inbox_event WHERE event_id IN ('evt_known', 'evt_b')`, &deliveries)
	if deliveries < 2 {
		t.Errorf("the repeated ones count %d deliveries, want at least 2", deliveries)
	}
	for _, id := range []string{"evt_a", "evt_b", "evt_c"} {
		if n := recorded[id]; n > 1 || !fault.Struck() && n != 1 {
			t.Errorf("%s was answered as recorded %d times", id, n)
		}
	}
	if recorded["evt_known"] > 0 {
		t.Error("the event that was known was answered as recorded")
	}
	b.whole(t, 4)
	if n := fault.Codes("23505"); n > 0 {
		t.Errorf("the server refused %d statements, because they would have written something twice", n)
	}
	return fault.Struck()
}
