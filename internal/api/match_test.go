package api_test

import (
	"testing"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// A person decides about what they were shown, and is told if it is no longer that.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	shown, err := read.NewLister(h.pool).Effect(t.Context(), effect)
	if err != nil {
		t.Fatal(err)
	}
	path, done := "/effects/"+effect.String()+"/resolve", object{"as": "done", "reason": "r"}
	h.exec(t, `UPDATE effect SET revision = revision + 1 WHERE id = $1`, effect)
	expect(t, "a stale tag", h.do(t, "operate", path, done, "If-Match", `"`+shown.Tag()+`"`), control.CodePrecondition)
	expect(t, "no tag", h.do(t, "operate", path, done, "If-Match", "stale"), control.CodeInvalid)
	expect(t, "an operation without tags", h.do(t, "operate", "/replays", object{"all": true}, "If-Match", `"x"`), control.CodeInvalid)
	if got := h.state(t, effect); got != "indeterminate" {
		t.Fatalf("the effect is %s: a decision about another state was carried out", got)
	}
	if shown, err = read.NewLister(h.pool).Effect(t.Context(), effect); err != nil {
		t.Fatal(err)
	}
	h.do(t, "operate", path, done, "If-Match", `"`+shown.Tag()+`"`).into(t, &struct{}{})
	expect(t, "the second decision", h.do(t, "operate", path, done), control.CodeConflict)
}
