package jobs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// skipping skips what a stream waits for, as it was shown, beside whatever do does.
func (b *bundle) skipping(store *inbox.Effects, shown *read.StreamDetail, do func()) error {
	b.tb.Helper()
	pass := decide.PassStream{Stream: shown.ID, As: decide.StreamSkip, MissingTo: shown.MissingTo, Actor: decider, Reason: decided}
	if shown.BlockedByEffect != nil {
		pass.Blocker, pass.Revision = shown.BlockedByEffect.ID, &shown.BlockedByEffect.Revision
	}
	ended := make(chan error, 1)
	go func() { ended <- decide.New(store).PassStream(b.tb.Context(), pass) }()
	do()
	return <-ended
}

func (b *bundle) streamOf(key string) *read.StreamDetail {
	b.tb.Helper()
	d, err := read.NewLister(b.pool).Stream(b.tb.Context(), "shop/"+once+"/"+key)
	must(b.tb, err)
	return d
}

func (b *bundle) attempts(id inbox.ID, version int) int {
	b.tb.Helper()
	return b.count(`SELECT count(*) FROM effect_attempt WHERE effect_id = $1 AND version = $2`, id, version)
}

// settled has those effects that are woken run to their end.
func (b *bundle) settled(store *inbox.Effects, ids ...inbox.ID) {
	b.tb.Helper()
	b.eventually("all to be settled", func() bool {
		left := 0
		for _, id := range ids {
			switch inbox.EffectState(b.row(id).State) { //nolint:exhaustive // the others are settled
			case inbox.EffectPending:
				if claim := b.try(store, id); claim != nil {
					b.end(store, claim, inbox.EffectDone)
				}
				left++
			case inbox.EffectClaimed, inbox.EffectRetry, inbox.EffectHeld:
				left++
			}
		}
		return left == 0
	})
}

// The effect that blocks a stream is skipped while a replay sends it and it settles: it is
// either skipped and not sent, or sent and not skipped, and the stream goes on.
func TestAStreamIsSkippedWhileItsEffectSettles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{once: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock}}
	store := b.store("node-1")
	r := b.replays(replay.Config{Store: store})
	skipped, sent := 0, 0
	for round := range 16 {
		key := fmt.Sprint(round)
		ids := b.sequenced(once, key, "1", "2")
		b.end(store, b.try(store, ids[0]), inbox.EffectDead)
		if b.try(store, ids[1]) != nil {
			t.Fatal("2 began behind a dead one")
		}
		p := plan(t, r, replay.Scope{IDs: ids[:1]}, replay.Options{})
		start(t, r, p)
		shown := b.streamOf(key)
		end := []inbox.EffectState{inbox.EffectDone, inbox.EffectDead}[round%2]
		err := b.skipping(store, shown, func() {
			run(t, r, p.ID)
			if b.row(ids[0]).State == string(inbox.EffectPending) {
				b.end(store, b.try(store, ids[0]), end)
			}
		})
		p, failed := r.Status(t.Context(), p.ID)
		must(t, failed)
		row := b.row(ids[0])
		switch {
		case err == nil && row.State == "skipped" && b.attempts(ids[0], 2) == 0 && p.Summary.Outcomes[replay.ItemDecidedSince] == 1:
			skipped++
		case errors.Is(err, decide.ErrStream) && row.State == string(end) && b.attempts(ids[0], 2) == 1 && p.Summary.Outcomes[replay.ItemReplayed] == 1:
			sent++
		default:
			t.Fatalf("round %d: skipped: %v, the effect is %+v with %d attempts, the replay came to %v", round, err, row, b.attempts(ids[0], 2), p.Summary.Outcomes)
		}
		if row.State == "dead" {
			must(t, b.skipping(store, b.streamOf(key), func() {}))
		}
		b.settled(store, ids...)
		if d := b.streamOf(key); d.Applied != "2" || d.BlockedBy != nil || b.attempts(ids[1], 1) != 1 {
			t.Errorf("round %d: the stream is %+v", round, d.StreamRow)
		}
	}
	t.Logf("%d skipped, %d sent", skipped, sent)
}

// A missing number is given up while its effect comes and settles: either it is given up
// and the effect comes too late, or it is not and the effect happens once. The one behind it
// happens once, and nothing stays held.
func TestANumberIsGivenUpWhileItsEffectSettles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{once: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock, Late: sequence.LateDrop}}
	store := b.store("node-1")
	given, came := 0, 0
	for round := range 16 {
		key := fmt.Sprint(round)
		ids := b.sequenced(once, key, "1", "3")
		b.end(store, b.claim(store, ids[0]), inbox.EffectDone)
		if b.try(store, ids[1]) != nil {
			t.Fatal("3 began, though 2 is missing")
		}
		err := b.skipping(store, b.streamOf(key), func() {
			ids = append(ids, b.sequenced(once, key, "2")...)
			b.settled(store, ids[2])
		})
		b.settled(store, ids...)
		second := b.row(ids[2])
		switch {
		case err == nil && second.State == "superseded" && b.attempts(ids[2], 1) == 0:
			given++
		case errors.Is(err, decide.ErrStream) && second.State == "done" && b.attempts(ids[2], 1) == 1:
			came++
		default:
			t.Fatalf("round %d: given up: %v, 2 is %+v with %d attempts", round, err, second, b.attempts(ids[2], 1))
		}
		if d := b.streamOf(key); d.Applied != "3" || d.GapSince != nil || d.Held != 0 || b.attempts(ids[1], 1) != 1 {
			t.Errorf("round %d: the stream is %+v, 3 had %d attempts", round, d.StreamRow, b.attempts(ids[1], 1))
		}
	}
	t.Logf("%d given up, %d came", given, came)
}

// A worker that has the next effect of the stream locked for a moment does not end the
// decision with an error of the database; one that keeps it is told.
func TestAStreamIsSkippedBesideALockedEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.order = map[string]sequence.Policy{once: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock}}
	store := b.store("node-1")
	ids := b.sequenced(once, "k", "1", "3")
	b.end(store, b.claim(store, ids[0]), inbox.EffectDone)
	if b.try(store, ids[1]) != nil {
		t.Fatal("3 began, though 2 is missing")
	}
	shown := b.streamOf("k")
	letGo := b.stranger(`SELECT FROM effect WHERE id = $1 FOR UPDATE`, ids[1])
	if err := b.skipping(store, shown, func() {}); !errors.Is(err, inbox.ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
	err := b.skipping(store, shown, letGo)
	must(t, err)
	b.settled(store, ids...)
}
