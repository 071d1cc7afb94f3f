package jobs_test

import (
	"fmt"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// A route whose order is taken off lets go of all that it held, in one sweep: what
// waited behind another effect, behind a gap, and for a person.
func TestARouteWithoutOrderFreesAllAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", Ties: sequence.Hold}}
	numbers := make([]string, 0, 100)
	for n := 2; n <= 101; n++ {
		numbers = append(numbers, fmt.Sprint(n))
	}
	ids := b.sequenced(repeatable, "17", numbers...)
	store := b.store("node-1")
	for _, id := range ids {
		b.try(store, id)
	}
	others := b.admit(repeatable, 2)
	b.exec(`UPDATE effect SET state = 'held', next_at = NULL, reason = 'sequence_key_missing' WHERE id = $1`, others[0])
	b.exec(`UPDATE effect SET state = 'held', next_at = NULL, reason = 'sequence_number_taken', sequence_number = 2,
		sequence_key_hash = $2 WHERE id = $1`, others[1], inbox.SequenceKeyHash("shop", repeatable, "17"))
	ids = append(ids, others...)
	if n := b.states(ids, "held"); n != len(ids) {
		t.Fatalf("%d of %d are held", n, len(ids))
	}
	b.order = nil
	store = b.store("node-2")
	if _, err := store.CheckHeld(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.states(ids, "pending"); n != len(ids) {
		t.Errorf("one sweep set %d of %d going", n, len(ids))
	}
	b.client(jobs.Config{Store: store})
	b.eventually("all of them", func() bool { return b.states(ids, "done") == len(ids) })
}
