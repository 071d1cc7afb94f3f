package jobs_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// diesAgain has a replay send an effect, which dies once more for the same reason.
func (b *bundle) diesAgain(id inbox.ID) {
	b.tb.Helper()
	r := b.replays(replay.Config{})
	p := plan(b.tb, r, replay.Scope{IDs: []inbox.ID{id}}, replay.Options{})
	start(b.tb, r, p)
	run(b.tb, r, p.ID)
	b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL WHERE id = $1`, id)
}

// A discard that was confirmed takes what was counted and shown, as it was then: neither
// what died since, nor what somebody has had sent again.
func TestADiscardTakesWhatWasShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(repeatable, 2)
	b.died()
	event := b.admit(repeatable, 1)[0]
	b.exec(`DELETE FROM effect WHERE id = $1`, event)
	b.exec(`UPDATE inbox_event SET admission = 'unusable' WHERE id = $1`, event)
	store := b.store("node-1")
	ask := decide.Discard{Filter: read.DeadFilter{Source: "shop"}, Actor: decider, Reason: decided}
	dry := ask
	dry.DryRun = true
	shown, err := decide.New(store).Discard(t.Context(), dry)
	if err != nil || shown.Matched != 3 || len(shown.Seen) != 3 {
		t.Fatalf("%+v, %v", shown, err)
	}
	b.diesAgain(ids[0])
	later := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL WHERE id = $1`, later)
	r := b.replays(replay.Config{Judge: newRoute(b.routes[once])})
	p := plan(t, r, replay.Scope{IDs: []inbox.ID{event}}, replay.Options{})
	start(t, r, p)
	run(t, r, p.ID)
	ask.Seen = shown.Seen
	out, err := decide.New(store).Discard(t.Context(), ask)
	if err != nil || out.Matched != 3 || out.Discarded != 1 || out.Changed != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	for id, want := range map[inbox.ID]string{ids[0]: "dead", ids[1]: "skipped", later: "dead"} {
		if row := b.row(id); row.State != want {
			t.Errorf("%s is %s, want %s", id, row.State, want)
		}
	}
	if n := b.count(`SELECT count(*) FROM inbox_event WHERE discarded_at IS NOT NULL`); n != 0 {
		t.Error("an event was discarded that a replay has made an effect of since")
	}
}

// What is said of an unknown outcome holds for the effect as it was looked at.
func TestAResolutionTakesWhatWasShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.admit(once, 2)
	b.unsure()
	lister, store := read.NewLister(b.pool), b.store("node-1")
	shown, err := lister.Effect(t.Context(), ids[0])
	must(t, err)
	found, err := lister.Unknown(t.Context(), read.UnknownFilter{}, 10)
	must(t, err)
	b.conflict(ids[0])
	must(t, b.admitConflictOf(ids[0])) // somebody else, meanwhile
	err = decide.New(store).Resolve(t.Context(), decide.Resolve{
		Effect: ids[0], As: decide.ResolveResend, Version: shown.Version, Revision: shown.Revision, Actor: decider, Reason: decided,
	})
	if !errors.Is(err, inbox.ErrState) {
		t.Errorf("%v, want ErrState", err)
	}
	out, err := decide.New(store).ResolveMany(t.Context(), decide.ResolveMany{Effects: found, As: decide.ResolveResend, Actor: decider, Reason: decided})
	if err != nil || out.Resolved != 1 || out.Changed != 1 || b.row(ids[0]).State != "indeterminate" || b.row(ids[1]).State != "pending" {
		t.Errorf("%+v, %v", out, err)
	}
}

// A stream is passed as it was looked at: not past an effect that somebody has had sent
// again since, although that is dead once more.
func TestAStreamIsPassedAsItWasShown(t *testing.T) {
	t.Parallel()
	for _, as := range []decide.StreamPass{decide.StreamSkip, decide.StreamUnblock} {
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.order = map[string]sequence.Policy{repeatable: {Mode: sequence.Contiguous, Start: "1", OnDead: sequence.DeadBlock}}
			store := b.store("node-1")
			id := b.sequenced(repeatable, "17", "1", "2")[0]
			b.end(store, b.try(store, id), inbox.EffectDead)
			lister, stream := read.NewLister(b.pool), b.text(`SELECT id::text FROM stream`)
			shown, err := lister.Stream(t.Context(), stream)
			must(t, err)
			r := b.replays(replay.Config{Store: store})
			p := plan(t, r, everything(), replay.Options{})
			start(t, r, p)
			run(t, r, p.ID)
			b.end(store, b.try(store, id), inbox.EffectDead)
			pass := decide.PassStream{Stream: shown.ID, As: as, Blocker: id, Revision: &shown.BlockedByEffect.Revision, Actor: decider, Reason: decided}
			if err := decide.New(store).PassStream(t.Context(), pass); !errors.Is(err, decide.ErrStream) || b.row(id).State != "dead" {
				t.Errorf("%v, want ErrStream", err)
			}
			if shown, err = lister.Stream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			pass.Revision = &shown.BlockedByEffect.Revision
			must(t, decide.New(store).PassStream(t.Context(), pass))
		})
	}
}

// What waits for a route that is gone is cleared as it was counted: what came since, or
// was moved by somebody else, is not.
func TestARouteIsClearedAsItWasShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := b.gone(2)
	store := b.store("node-1")
	ask := decide.ClearRoute{Source: "shop", Route: "old", Actor: decider, Reason: decided}
	dry := ask
	dry.DryRun = true
	shown, err := decide.New(store).ClearRoute(t.Context(), dry)
	if err != nil || len(shown.Seen) != 2 {
		t.Fatalf("%+v, %v", shown, err)
	}
	later := b.admit(repeatable, 1)[0]
	b.exec(`UPDATE effect SET route_id = (SELECT id FROM route WHERE name = 'old') WHERE id = $1`, later)
	b.exec(`UPDATE effect SET revision = revision + 1 WHERE id = $1`, ids[0]) // somebody decided about it
	ask.Seen = shown.Seen
	out, err := decide.New(store).ClearRoute(t.Context(), ask)
	if err != nil || out.Cleared != 1 || out.Left != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	for id, want := range map[inbox.ID]string{ids[0]: "pending", ids[1]: "skipped", later: "pending"} {
		if row := b.row(id); row.State != want {
			t.Errorf("%s is %s, want %s", id, row.State, want)
		}
	}
}
