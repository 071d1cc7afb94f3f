package jobs_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// undecided makes an effect that is held for a person for each of the reasons: one
// without a key, one without a number, one whose number is a time far ahead, and one whose
// number is taken by one that is done.
func (b *bundle) undecided(store *inbox.Effects) map[reasons.Reason]inbox.ID {
	b.tb.Helper()
	b.end(store, b.try(store, b.sequenced(repeatable, "k", "1")[0]), inbox.EffectDone)
	tie := b.sequenced(repeatable, "k", "1")[0]
	if b.try(store, tie) != nil {
		b.tb.Fatal("a tie was claimed")
	}
	loose := b.admit(repeatable, 3)
	b.exec(`UPDATE effect SET state = 'held', next_at = NULL, reason = 'sequence_key_missing' WHERE id = $1`, loose[0])
	b.exec(`UPDATE effect SET state = 'held', next_at = NULL, reason = 'sequence_number_missing', sequence_key_hash = $2 WHERE id = $1`,
		loose[1], inbox.SequenceKeyHash("shop", repeatable, "k"))
	b.exec(`UPDATE effect SET state = 'held', next_at = NULL, reason = 'sequence_time_ahead', sequence_key_hash = $2 WHERE id = $1`,
		loose[2], inbox.SequenceKeyHash("shop", repeatable, "k"))
	return map[reasons.Reason]inbox.ID{reasons.Tie: tie, reasons.NoKey: loose[0], reasons.NoNumber: loose[1], reasons.Ahead: loose[2]}
}

// Everything that is held for a person can be ended by one, either way, and the audit
// says so; whoever is told to run does so, also after a failed attempt, and what is
// behind goes on.
func TestWhatIsHeldForAPersonCanBeEnded(t *testing.T) {
	t.Parallel()
	for as, want := range map[decide.UndecidedEnd]inbox.EffectState{decide.UndecidedApply: inbox.EffectDone, decide.UndecidedSkip: inbox.EffectSkipped} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", Ties: sequence.Hold, NoKey: sequence.Hold, NoNumber: sequence.Hold}}
			store := b.store("node-1")
			held := b.undecided(store)
			rows, err := inboxtest.Rows(inboxtest.Lister(b.pool).Undecided(t.Context(), read.StreamFilter{}, 0))
			if err != nil || len(rows) != len(held) {
				t.Fatalf("%+v, %v", rows, err)
			}
			var ids []inbox.ID
			for _, row := range rows {
				if held[row.Reason] != row.Effect {
					t.Errorf("%+v is not the one held for %s", row, row.Reason)
				}
				ids = append(ids, row.Effect)
			}
			// As the command line does: without the routes.
			bare := b.storeOn(b.pool)
			n, err := decide.New(bare).EndUndecided(t.Context(), decide.EndUndecided{Effects: ids, As: as, Actor: actor, Reason: why})
			if err != nil || n != len(ids) {
				t.Fatalf("%d, %v", n, err)
			}
			if as == decide.UndecidedApply { // its decision outlives a failed attempt
				if claim := b.try(store, held[reasons.Tie]); claim == nil {
					t.Fatalf("the tie is %+v", b.row(held[reasons.Tie]))
				} else {
					b.end(store, claim, inbox.EffectRetry)
				}
				b.exec(`UPDATE effect SET next_at = now() WHERE id = $1`, held[reasons.Tie])
			}
			next := b.sequenced(repeatable, "k", "2")[0]
			b.client(jobs.Config{Store: store, SweepEvery: -1})
			for _, id := range ids {
				b.eventuallyState(id, want)
			}
			b.eventuallyState(next, inbox.EffectDone)
			if n := b.count(`SELECT count(*) FROM audit WHERE action = $1 AND actor = $2`, "order."+string(as), actor); n != len(ids) {
				t.Errorf("%d audit entries", n)
			}
			if _, err := decide.New(bare).EndUndecided(t.Context(), decide.EndUndecided{Effects: ids[:1], As: as, Actor: actor, Reason: why}); !errors.Is(err, inbox.ErrState) {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// Skipping one that is held for a person sets no other going that is.
func TestSkippingOneDecidesNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", Ties: sequence.Hold}}
	held := b.undecided(b.store("node-1"))
	_, err := decide.New(b.storeOn(b.pool)).EndUndecided(t.Context(), decide.EndUndecided{
		Effects: []inbox.ID{held[reasons.Tie]}, As: decide.UndecidedSkip, Actor: actor, Reason: why,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := b.row(held[reasons.NoNumber]); r.State != "held" {
		t.Errorf("the one without a number is %+v", r)
	}
}
