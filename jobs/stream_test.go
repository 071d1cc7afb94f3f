package jobs_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox"
)

// An effect that carries a sequence key moves its stream on when it is settled,
// and only then.
func TestSettleMovesTheStreamOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*inbox.Settlement)
		applied int
		free    bool // nothing is in flight any more
		key     int  // rows of effect_key
	}{
		"done": {func(*inbox.Settlement) {}, 7, true, 1},
		"skipped": {func(s *inbox.Settlement) {
			s.State, s.Outcome, s.Reason = inbox.EffectSkipped, inbox.AttemptSkipped, inbox.ReasonOther
		}, 3, true, 0},
		"retry": {func(s *inbox.Settlement) {
			s.State, s.Outcome, s.Reason = inbox.EffectRetry, inbox.AttemptRetry, inbox.ReasonTimeout
		}, 3, false, 1},
		"stale": {func(s *inbox.Settlement) { s.Token = inbox.ID{1} }, 3, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.admit(repeatable, 1)[0]
			b.exec(`UPDATE effect SET sequence_key_hash = sha256('order_7'), sequence_number = 7`)
			b.exec(`INSERT INTO stream (route_id, key_hash, applied, in_flight) SELECT route_id, sequence_key_hash, 3, id FROM effect`)
			b.exec(`INSERT INTO effect_key (route_id, key_hash, effect_id, received_at) SELECT route_id, sequence_key_hash, id, now() FROM effect`)
			store := b.store("node-1")
			claim := b.claim(store, id)
			if claim.SequenceNumber != "7" || len(claim.SequenceKeyHash) != 32 {
				t.Errorf("%+v does not name its place", claim)
			}
			s := done(claim)
			s.SequenceKeyHash = claim.SequenceKeyHash
			c.change(&s)
			if _, err := store.Settle(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if n := b.count(`SELECT applied::int FROM stream`); n != c.applied {
				t.Errorf("applied %d, want %d", n, c.applied)
			}
			if free := b.count(`SELECT count(*) FROM stream WHERE in_flight IS NULL`) == 1; free != c.free {
				t.Errorf("free %t, want %t", free, c.free)
			}
			if n := b.count(`SELECT count(*) FROM effect_key`); n != c.key {
				t.Errorf("%d keys, want %d", n, c.key)
			}
		})
	}
}
