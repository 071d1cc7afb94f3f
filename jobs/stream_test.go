package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// sequenced admits one effect of the route for each number, in one sequence. As the
// gate would, it does not make the stream's row known to anybody else.
func (b *bundle) sequenced(route, key string, numbers ...string) []inbox.ID {
	b.tb.Helper()
	return b.admitWith(route, len(numbers), func(batch *pgx.Batch, ids []inbox.ID) {
		hash := inbox.SequenceKeyHash("shop", route, key)
		for i, id := range ids {
			batch.Queue(`UPDATE effect SET sequence_key_hash = $2, sequence_number = $3::text::numeric WHERE id = $1`, id, hash, numbers[i])
		}
		batch.Queue(`INSERT INTO stream (route_id, key_hash, key_label) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, b.routes[route], hash, key)
	})
}

// try asks for an effect as its job would.
func (b *bundle) try(store *inbox.Effects, id inbox.ID) *inbox.Claim {
	b.tb.Helper()
	claim, _, err := store.Claim(b.tb.Context(), id, b.row(id).JobID)
	if err != nil {
		b.tb.Fatal(err)
	}
	return claim
}

// end ends a claim in a state, as a worker or a person would.
func (b *bundle) end(store *inbox.Effects, claim *inbox.Claim, state inbox.EffectState) inbox.Settled {
	b.tb.Helper()
	s := inbox.Settlement{
		Effect: claim.Effect, Token: claim.Token, State: state, Outcome: inbox.AttemptOutcome(state), Trigger: claim.Trigger,
		StartedAt: claim.StartedAt, RouteID: claim.RouteID, SequenceKeyHash: claim.SequenceKeyHash,
	}
	switch state { //nolint:exhaustive // the others need no more
	case inbox.EffectRetry:
		s.Reason, s.After = reasons.Timeout, time.Hour
	case inbox.EffectDead, inbox.EffectIndeterminate, inbox.EffectSkipped:
		s.Reason = reasons.Timeout
	case inbox.EffectSuperseded:
		s.Outcome = inbox.AttemptSkipped
	case inbox.EffectDuplicate:
		s.Outcome, s.DuplicateOf = "", claim.Effect
	}
	out, err := store.Settle(b.tb.Context(), s)
	if err != nil || !out.Applied {
		b.tb.Fatalf("%+v, %v", out, err)
	}
	return out
}

// What n+1 meets, by what has become of n: the table of the design, cell by cell,
// whether n+1 asks after n has come there or waits for it.
func TestEveryCellOfTheOrder(t *testing.T) {
	t.Parallel()
	const (
		waits = "held"
		goes  = "claimed"
	)
	block, skip := sequence.DeadBlock, sequence.DeadSkip
	for _, c := range []struct {
		mode   sequence.Mode
		onDead sequence.OnDead
		state  inbox.EffectState
		want   string
		first  string // what n is then, if not state
	}{
		{sequence.Contiguous, block, inbox.EffectClaimed, waits, ""},
		{sequence.Contiguous, block, inbox.EffectRetry, waits, ""},
		{sequence.Contiguous, block, inbox.EffectDead, waits, ""},
		{sequence.Contiguous, skip, inbox.EffectDead, goes, ""},
		{sequence.Contiguous, block, inbox.EffectIndeterminate, waits, ""},
		{sequence.Contiguous, skip, inbox.EffectIndeterminate, goes, ""},
		{sequence.Contiguous, block, inbox.EffectDone, goes, ""},
		{sequence.Contiguous, block, inbox.EffectSuperseded, goes, ""},
		{sequence.Contiguous, block, inbox.EffectSkipped, goes, ""},
		{sequence.Contiguous, block, inbox.EffectDuplicate, goes, ""},

		{sequence.Latest, block, inbox.EffectClaimed, waits, ""},
		{sequence.Latest, block, inbox.EffectRetry, goes, "superseded"},
		{sequence.Latest, block, inbox.EffectDead, goes, ""},
		{sequence.Latest, block, inbox.EffectIndeterminate, goes, ""},
		{sequence.Latest, block, inbox.EffectDone, goes, ""},
		{sequence.Latest, block, inbox.EffectSuperseded, goes, ""},
		{sequence.Latest, block, inbox.EffectSkipped, goes, ""},
		{sequence.Latest, block, inbox.EffectDuplicate, goes, ""},

		{sequence.Arrival, block, inbox.EffectClaimed, waits, ""},
		{sequence.Arrival, block, inbox.EffectRetry, waits, ""},
		{sequence.Arrival, block, inbox.EffectDead, goes, ""},
		{sequence.Arrival, block, inbox.EffectIndeterminate, waits, ""},
		{sequence.Arrival, skip, inbox.EffectIndeterminate, goes, ""},
		{sequence.Arrival, block, inbox.EffectDone, goes, ""},
		{sequence.Arrival, block, inbox.EffectSuperseded, goes, ""},
		{sequence.Arrival, block, inbox.EffectSkipped, goes, ""},
		{sequence.Arrival, block, inbox.EffectDuplicate, goes, ""},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", c.mode, c.state, c.onDead), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.order = map[string]sequence.Policy{repeatable: {Mode: c.mode, OnDead: c.onDead, Start: "7"}}
			store := b.store("node-1")
			for i, key := range []string{"asks after", "waits for it"} {
				ids := b.sequenced(repeatable, key, "7")
				claim := b.claim(store, ids[0])
				ids = append(ids, b.sequenced(repeatable, key, "8")...)
				if i == 1 {
					if second := b.try(store, ids[1]); second != nil || b.row(ids[1]).State != waits {
						t.Fatalf("while n is claimed, n+1 is %+v", b.row(ids[1]))
					}
				}
				if c.state != inbox.EffectClaimed {
					b.end(store, claim, c.state)
				}
				if i == 1 && c.want == goes {
					if r := b.row(ids[1]); r.State != "pending" || b.count(`SELECT count(*) FROM river_job WHERE id = $1`, r.JobID) != 1 {
						t.Fatalf("%s: n+1 is %+v, not set going", key, r)
					}
				}
				b.try(store, ids[1])
				if r := b.row(ids[1]); r.State != c.want {
					t.Errorf("%s: n+1 is %+v, want %s", key, r, c.want)
				}
				first := c.first
				if first == "" {
					first = string(c.state)
				}
				if r := b.row(ids[0]); r.State != first {
					t.Errorf("%s: n is %+v, want %s", key, r, first)
				}
				blocked := c.want == waits && (c.state == inbox.EffectDead || c.state == inbox.EffectIndeterminate)
				if got := b.count(`SELECT count(*) FROM stream WHERE key_label = $1 AND blocked_by = $2`, key, ids[0]) == 1; got != blocked {
					t.Errorf("%s: the stream says blocked %t, want %t", key, got, blocked)
				}
			}
		})
	}
}
