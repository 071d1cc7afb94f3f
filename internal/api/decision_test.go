package api_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// What a dry run found is what is discarded: nothing that came since, and nothing that has changed since.
func TestADecisionHoldsForWhatWasSeen(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, first := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	_, second := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	discard := func(body object) *answer { return h.do(t, "operate", "/dead-letters/discard", body) }
	expect(t, "a filter without a dry run", discard(object{"all": true, "reason": "r"}), control.CodeInvalid)
	expect(t, "nothing named", discard(object{"dry_run": true}), control.CodeInvalid)
	expect(t, "nonsense", discard(object{"seen": "AQID", "reason": "r"}), control.CodeInvalid)
	expect(t, "more than max", discard(object{"all": true, "dry_run": true, "max": 1}), control.CodeBound)
	var dry struct {
		Matched, Discarded, Left int
		Seen                     string
	}
	discard(object{"filter": object{"source": "acme"}, "dry_run": true}).into(t, &dry)
	if dry.Matched != 2 || dry.Left != 2 || dry.Discarded != 0 || h.state(t, first) != "dead" || len(h.actors(t, "effect.discard")) != 0 {
		t.Fatalf("the dry run gave %+v, want two and nothing changed", dry)
	}
	_, third := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	h.exec(t, `UPDATE effect SET revision = revision + 1 WHERE id = $1`, second)
	expect(t, "no reason", discard(object{"seen": dry.Seen}), control.CodeInvalid)
	var done struct {
		Discarded, Changed, Left int
		Seen                     string
	}
	discard(object{"seen": dry.Seen, "reason": "r"}).into(t, &done)
	if done.Discarded != 1 || done.Changed != 1 || done.Left != 0 || done.Seen != "" {
		t.Errorf("%+v, want one discarded and one left alone", done)
	}
	for effect, want := range map[inbox.ID]string{first: "skipped", second: "dead", third: "dead"} {
		if got := h.state(t, effect); got != want {
			t.Errorf("effect %s is %s, want %s", effect, got, want)
		}
	}
	if got := h.actors(t, "effect.discard"); len(got) != 1 || got[0] != "ann of operate" {
		t.Errorf("the audit names %q", got)
	}
}

// Effects are found by their ids: those whose outcome is known, and those of others, are not among them.
func TestEffectsAreFoundByTheirIDs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, first := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	_, second := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	_, dead := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	_, others := h.effect(t, "blue", "bill", "indeterminate", "timeout")
	resolve := func(token string, body object) *answer { return h.do(t, token, "/indeterminates/resolve", body) }
	ids := []inbox.ID{second, first, dead, first, inbox.NewID(time.Now())}
	expect(t, "ids and a filter", resolve("operate", object{"ids": ids, "all": true, "dry_run": true}), control.CodeInvalid)
	expect(t, "ids without a dry run", resolve("operate", object{"ids": ids, "as": "done", "reason": "r"}), control.CodeInvalid)
	expect(t, "more than max", resolve("operate", object{"ids": ids, "max": 1, "dry_run": true}), control.CodeBound)
	var dry struct {
		Matched, Unmatched, Left int
		Seen                     string
		Examples                 []struct {
			ID             inbox.ID
			IdempotencyKey string `json:"idempotency_key"`
		}
	}
	resolve("operate", object{"ids": ids, "dry_run": true}).into(t, &dry)
	if dry.Matched != 2 || dry.Unmatched != 2 || len(dry.Examples) != 2 || dry.Examples[0].ID != second {
		t.Fatalf("%+v, want two of four, the newest first", dry)
	}
	seen := dry.Seen
	resolve("operate@blue", object{"ids": []inbox.ID{first}, "dry_run": true}).into(t, &dry)
	if dry.Matched != 0 || dry.Unmatched != 1 {
		t.Errorf("a tenant finds %+v, want nothing of another", dry)
	}
	var done struct{ Resolved int }
	resolve("operate", object{"seen": seen, "as": "done", "reason": "r"}).into(t, &done)
	if done.Resolved != 2 || h.state(t, first) != "done" || h.state(t, dead) != "dead" || h.state(t, others) != "indeterminate" {
		t.Errorf("%d are resolved, want two", done.Resolved)
	}
}

// A long decision is taken some at a time: each answer says what is left.
func TestALongDecisionIsTakenInSteps(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	event, _ := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	h.exec(t, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, item)
		SELECT gen_random_uuid(), $1, $2, 'indeterminate', 'item' || n, 1, 'timeout', n FROM generate_series(1, 1199) n`, event, h.sources["acme"].Routes["bill"].ID)
	var at struct {
		Matched, Resolved, Left int
		Seen                    string
	}
	h.do(t, "operate", "/indeterminates/resolve", object{"filter": object{"route": "bill"}, "dry_run": true, "max": 5000}).into(t, &at)
	if at.Matched != 1200 || at.Left != 1200 {
		t.Fatalf("%+v, want 1200", at)
	}
	total, requests := 0, 0
	for ; at.Left > 0; requests++ {
		h.do(t, "operate", "/indeterminates/resolve", object{"seen": at.Seen, "as": "done", "reason": "r"}).into(t, &at)
		total += at.Resolved
	}
	if total != 1200 || requests < 2 {
		t.Errorf("%d resolved in %d requests, want 1200 in two or more", total, requests)
	}
}
