package api_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/internal/control"
)

// A request that is made several times at the same instant, and again later, happens once: one carries it out, and the others
// get its answer or are told that it is under way. The second discard would find nothing, and answer otherwise.
func TestARequestUnderOneKeyHappensOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	body := object{"ids": []string{effect.String()}, "reason": "r"}
	// Whoever carries it out waits for the effect's row, so that the others come while it is under way.
	lock, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), `LOCK TABLE audit IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	const many = 8
	answers, errs := make([]*answer, many), make([]error, many)
	inProgress := make(chan struct{}, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			answers[i], errs[i] = h.post(t.Context(), "operate", "/dead-letters/discard", body, "Idempotency-Key", `"one"`)
			inProgress <- struct{}{}
		})
	}
	for range many - 1 { // all but the one that waits
		<-inProgress
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	first := 0
	var text []byte
	for i, a := range answers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if a.status == http.StatusOK {
			first++
			text = a.body
			continue
		}
		expect(t, "a request while it is under way", a, control.CodeKeyInFlight)
	}
	if first != 1 || !bytes.Contains(text, []byte(`"discarded":1`)) {
		t.Errorf("%d of %d requests were carried out, the last with %s", first, many, text)
	}
	again := h.do(t, "operate", "/dead-letters/discard", body, "Idempotency-Key", "one")
	if !bytes.Equal(again.body, text) || again.status != http.StatusOK || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("made again it gives %d %s, want %s", again.status, again.body, text)
	}
	if got := len(h.actors(t, "effect.discard")); got != 1 {
		t.Errorf("%d actors in the audit, want 1", got)
	}
	expect(t, "without the key", h.do(t, "operate", "/dead-letters/discard", body), control.CodeConflict)
	expect(t, "another request", h.do(t, "operate", "/dead-letters/discard", object{"ids": []string{effect.String()}, "reason": "other"}, "Idempotency-Key", "one"), control.CodeKeyReused)
	expect(t, "another operation", h.do(t, "operate", "/dead-letters/replay", body, "Idempotency-Key", "one"), control.CodeKeyReused)
	expect(t, "another caller", h.do(t, "admin", "/dead-letters/discard", body, "Idempotency-Key", "one"), control.CodeConflict)
	expect(t, "another tenant", h.do(t, "operate@blue", "/dead-letters/discard", body, "Idempotency-Key", "one"), control.CodeNotFound)
}

// What was refused did not happen, and its key is free for the request as it should have been.
func TestAKeyOfARefusedRequestIsFree(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	path := "/effects/" + effect.String() + "/resolve"
	expect(t, "no reason", h.do(t, "operate", path, object{"as": "done"}, "Idempotency-Key", "k"), control.CodeInvalid)
	h.do(t, "operate", path, object{"as": "done", "reason": "r"}, "Idempotency-Key", "k").into(t, &struct{}{})
	for _, key := range []string{`"`, "a b\"c", "\u00e4", ""} {
		a := h.do(t, "operate", path, object{"as": "done", "reason": "r"}, "Idempotency-Key", key)
		expect(t, "the key "+key, a, control.CodeInvalid)
	}
}

// A process that died while it carried a request out leaves a row that says nothing of the end: whoever makes the request again
// is told so, until the key is forgotten.
func TestTheOutcomeOfARequestMayBeUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	path, body := "/effects/"+effect.String()+"/resolve", object{"as": "done", "reason": "r"}
	h.do(t, "operate", path, body, "Idempotency-Key", "k").into(t, &struct{}{})
	h.exec(t, `UPDATE api_request SET ended_at = NULL, answer = NULL`)
	expect(t, "while it may be under way", h.do(t, "operate", path, body, "Idempotency-Key", "k"), control.CodeKeyInFlight)
	h.exec(t, `UPDATE api_request SET lease_until = now() - interval '1 second'`)
	expect(t, "later", h.do(t, "operate", path, body, "Idempotency-Key", "k"), control.CodeOutcomeUnknown)
	h.exec(t, `UPDATE api_request SET expires_at = now() - interval '1 second'`)
	expect(t, "a day later it is a new request", h.do(t, "operate", path, body, "Idempotency-Key", "k"), control.CodeConflict)
}

// An answer with a secret is given once, also under a key, and is kept nowhere.
func TestAnAnswerWithASecretIsNotKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	body := object{"name": "ci", "scopes": []string{"operate"}}
	var created struct{ Token string }
	h.do(t, "admin", "/tokens", body, "Idempotency-Key", "k").into(t, &created)
	expect(t, "made again", h.do(t, "admin", "/tokens", body, "Idempotency-Key", "k"), control.CodeAnswerNotKept)
	var kept bool
	if err := h.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM api_request a WHERE strpos(a::text, $1) > 0 OR strpos(convert_from(coalesce(a.answer, ''), 'UTF8'), $1) > 0)`,
		created.Token).Scan(&kept); err != nil || created.Token == "" || kept {
		t.Errorf("the token %t is kept: %t, %v", created.Token != "", kept, err)
	}
}
