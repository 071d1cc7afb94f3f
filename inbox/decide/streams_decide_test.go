package decide_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

func TestSkippingAGapWakesTheNext(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	id := b.Stream("a", "1")
	b.Effect("a", 1, inbox.EffectDone)
	next, later := b.Effect("a", 4, inbox.EffectHeld), b.Effect("a", 5, inbox.EffectHeld)
	b.Gap(id)
	pass := decide.PassStream{Stream: id, As: decide.StreamSkip, MissingTo: "3", Actor: "ann", Reason: "the shop lost them"}
	for name, wrong := range map[string]decide.PassStream{
		"another gap":   {Stream: id, As: decide.StreamSkip, MissingTo: "2", Actor: "ann", Reason: "r"},
		"not looked at": {Stream: id, As: decide.StreamSkip, Actor: "ann", Reason: "r"},
		"a blocker":     {Stream: id, As: decide.StreamSkip, Blocker: next, Actor: "ann", Reason: "r"},
		"unblock":       {Stream: id, As: decide.StreamUnblock, MissingTo: "3", Actor: "ann", Reason: "r"},
	} {
		if err := decide.New(b.Store).PassStream(t.Context(), wrong); !errors.Is(err, decide.ErrStream) {
			t.Errorf("%s: %v, want ErrStream", name, err)
		}
	}
	if err := decide.New(b.Store).PassStream(t.Context(), decide.PassStream{Stream: id, As: decide.StreamSkip, MissingTo: "3", Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	if err := decide.New(b.Store).PassStream(t.Context(), decide.PassStream{Stream: id + 1, As: decide.StreamSkip, Actor: "ann", Reason: "r"}); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("no such stream: %v", err)
	}
	if err := decide.New(b.Store).PassStream(t.Context(), decide.PassStream{Stream: id, As: "jump", Actor: "ann", Reason: "r"}); err == nil {
		t.Error("an unknown way was taken")
	}
	if d := b.Show(fmt.Sprint(id)); d.Applied != "1" || d.GapSince == nil || len(b.Audited(id)) != 0 {
		t.Fatalf("something was changed: %+v", d)
	}
	if err := decide.New(b.Store).PassStream(t.Context(), pass); err != nil {
		t.Fatal(err)
	}
	if d := b.Show(fmt.Sprint(id)); d.Applied != "3" || d.GapSince != nil {
		t.Errorf("the stream is %+v", d.StreamRow)
	}
	if state, woken := b.Standing(next); state != "pending" || !woken {
		t.Errorf("the next one is %s, woken %t", state, woken)
	}
	if state, woken := b.Standing(later); state != "held" || woken {
		t.Errorf("the one after is %s, woken %t", state, woken)
	}
	entries := b.Audited(id)
	if len(entries) != 1 || entries[0].Action != string(inbox.AuditStreamSkip) || entries[0].Actor != "ann" || entries[0].Reason != "the shop lost them" ||
		!strings.Contains(string(entries[0].After), `"2 to 3"`) {
		t.Errorf("audited: %+v", entries)
	}
	if err := decide.New(b.Store).PassStream(t.Context(), pass); !errors.Is(err, decide.ErrStream) {
		t.Errorf("skipped twice: %v", err)
	}
}

func TestSkippingABlockerWakesTheNext(t *testing.T) {
	t.Parallel()
	for _, state := range []inbox.EffectState{inbox.EffectDead, inbox.EffectIndeterminate} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			b := storetest.NewStreamBook(t)
			id := b.Stream("a", "1")
			blocker, next := b.Effect("a", 2, state), b.Effect("a", 3, inbox.EffectHeld)
			b.Blocked(id, blocker)
			pass := decide.PassStream{Stream: id, As: decide.StreamSkip, Blocker: blocker, Actor: "ann", Reason: "sent by hand"}
			if err := decide.New(b.Store).PassStream(t.Context(), decide.PassStream{Stream: id, As: decide.StreamSkip, Blocker: next, Actor: "ann", Reason: "r"}); !errors.Is(err, decide.ErrStream) {
				t.Errorf("another blocker: %v", err)
			}
			if err := decide.New(b.Store).PassStream(t.Context(), pass); err != nil {
				t.Fatal(err)
			}
			var reason string
			if err := b.Pool.QueryRow(t.Context(), `SELECT state || ' ' || reason FROM effect WHERE id = $1`, blocker).Scan(&reason); err != nil || reason != "skipped discarded" {
				t.Errorf("the blocker is %q, %v", reason, err)
			}
			if d := b.Show(fmt.Sprint(id)); d.BlockedBy != nil {
				t.Errorf("the stream is %+v", d.StreamRow)
			}
			if state, woken := b.Standing(next); state != "pending" || !woken {
				t.Errorf("the next one is %s, woken %t", state, woken)
			}
			if entries := b.Audited(id); len(entries) != 1 || !strings.Contains(string(entries[0].After), blocker.String()) {
				t.Errorf("audited: %+v", entries)
			}
		})
	}
}

func TestUnblockingLeavesTheBlockerAtRest(t *testing.T) {
	t.Parallel()
	b := storetest.NewStreamBook(t)
	id := b.Stream("a", "1")
	blocker, next := b.Effect("a", 2, inbox.EffectDead), b.Effect("a", 3, inbox.EffectHeld)
	b.Blocked(id, blocker)
	pass := decide.PassStream{Stream: id, As: decide.StreamUnblock, Blocker: blocker, Actor: "ann", Reason: "later"}
	if err := decide.New(b.Store).PassStream(t.Context(), pass); err != nil {
		t.Fatal(err)
	}
	if state, _ := b.Standing(blocker); state != "dead" {
		t.Errorf("the blocker is %s", state)
	}
	if d := b.Show(fmt.Sprint(id)); d.BlockedBy != nil || d.Applied != "2" {
		t.Errorf("the stream is %+v", d.StreamRow)
	}
	if state, woken := b.Standing(next); state != "pending" || !woken {
		t.Errorf("the next one is %s, woken %t", state, woken)
	}
	if entries := b.Audited(id); len(entries) != 1 || entries[0].Action != string(inbox.AuditStreamUnblock) {
		t.Errorf("audited: %+v", entries)
	}
	// Where there is no number to go past, what may still happen blocks all that comes.
	arrival := b.Stream("b", "")
	unknown := b.Effect("b", 5, inbox.EffectIndeterminate)
	b.Blocked(arrival, unknown)
	if err := decide.New(b.Store).PassStream(t.Context(), decide.PassStream{Stream: arrival, As: decide.StreamUnblock, Blocker: unknown, Actor: "ann", Reason: "r"}); !errors.Is(err, decide.ErrStream) {
		t.Errorf("in order of arrival: %v", err)
	}
}
