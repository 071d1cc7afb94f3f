package refusal_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/inbox/registry"
)

// Of a flood, a few are diagnosed, with the kept body and behind the answer; a
// diagnosis that panics costs itself alone.
func TestRefusalsAreDiagnosedAFewAtATime(t *testing.T) {
	t.Parallel()
	now := refusedAt
	refusals, pool := newRefusals(t, refusal.Config{DiagnosesPerSecond: 2, Now: func() time.Time { return now }})
	asked := 0
	shared := []byte("the body")
	diagnose := func(body []byte) (string, string) {
		asked++
		if !bytes.Equal(body, []byte("the body")) {
			t.Errorf("diagnosed %q", body)
		}
		return "secret_written", "the secret ends in a line break"
	}
	for n := range 100 {
		refusal := mismatch(n, shared)
		refusal.Diagnose = diagnose
		refusals.Add(refusal)
	}
	sample := mismatch(1, shared)
	sample.Whole, sample.Cause = false, "stale"
	sample.Diagnose = func([]byte) (string, string) { t.Error("a sampled refusal was diagnosed"); return "", "" }
	refusals.Add(sample)
	broken := mismatch(1, shared)
	broken.SourceID = 8
	broken.Diagnose = func([]byte) (string, string) { panic("broken") }
	refusals.Add(broken)
	if asked != 0 {
		t.Error("diagnosed before the answer")
	}
	copy(shared, "XXXXXXXX") // the receiver reuses its buffer
	startRefusals(t, refusals)
	stopRefusals(t, refusals)
	// Three quarters of the burst of 10 are anybody's, and one more is this peer's share of the reserve.
	if asked != 8 {
		t.Errorf("diagnosed %d, want 8", asked)
	}
	if n := countRefusals(t, pool, "diagnosis LIKE 'number %; the secret ends in a line break'"); n != 8 {
		t.Errorf("%d rows with a diagnosis, want 8", n)
	}
	if n := countRefusals(t, pool, "source_id = 8 AND diagnosis = 'number 1'"); n != 1 {
		t.Errorf("%d rows of the broken diagnosis, want 1", n)
	}
}

func TestListRefusals(t *testing.T) {
	t.Parallel()
	refusals, pool := newRefusals(t, refusal.Config{})
	registered, err := registry.Register(t.Context(), pool, []registry.Source{{Name: "shop", Provider: "shopify", Class: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		refusal := mismatch(n, []byte("body"))
		refusal.SourceID = registered["shop"].ID
		if n == 2 {
			refusal.Whole, refusal.Cause = false, "stale"
		}
		refusals.Add(refusal)
	}
	startRefusals(t, refusals)
	stopRefusals(t, refusals)
	lister := inboxtest.Lister(pool)
	all, err := inboxtest.Rows(lister.Refusals(t.Context(), read.RefusalFilter{Source: "shop"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[0].Cause != "stale" || all[2].Diagnosis != "number 0" || all[0].Source != "shop" {
		t.Fatalf("listed %+v", all)
	}
	first, err := lister.Refusals(t.Context(), read.RefusalFilter{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter read.RefusalFilter
		want   int
	}{
		"cause": {read.RefusalFilter{Cause: "stale"}, 1}, "whole": {read.RefusalFilter{Whole: true}, 2},
		"after": {read.RefusalFilter{Limit: 2, Cursor: first.Next}, 1}, "limit": {read.RefusalFilter{Limit: 2}, 2},
		"source": {read.RefusalFilter{Source: "nobody"}, 0}, "since": {read.RefusalFilter{Since: refusedAt.Add(time.Hour)}, 0},
	} {
		rows, err := inboxtest.Rows(lister.Refusals(t.Context(), test.filter))
		if err != nil || len(rows) != test.want {
			t.Errorf("%s: %d rows, %v, want %d", name, len(rows), err, test.want)
		}
	}
	whole, err := lister.Refusal(t.Context(), all[2].ID)
	if err != nil {
		t.Fatal(err)
	}
	if string(whole.Body) != "body" || whole.Headers["Stripe-Signature"][0] != "t=1,v1=00" || whole.Provider != "shopify" {
		t.Errorf("got %+v", whole)
	}
}
