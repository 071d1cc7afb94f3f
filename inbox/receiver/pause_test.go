package receiver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox"
)

// A paused source answers 503 to whatever comes, so that the sender keeps it, and records neither an event nor a refusal. It takes
// deliveries again as soon as it is resumed.
func TestAPausedSourceTakesNothing(t *testing.T) {
	t.Parallel()
	gate, kept := answering(inbox.Recorded), &keeper{}
	cfg := config(gate, newProvider())
	cfg.Refusals = kept
	var paused atomic.Bool
	for _, source := range cfg.Sources {
		source.Paused = paused.Load
	}
	h := newReceiver(t, cfg)
	send := func(method, query, signature string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), method, "/in/shop"+query, strings.NewReader(`{"id":"evt_1"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Signature", signature)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	paused.Store(true)
	for _, w := range []*httptest.ResponseRecorder{
		send("POST", "", sign(`{"id":"evt_1"}`)),
		send("POST", "", "forged"),
		send("GET", "?challenge=1", ""),
		send("PUT", "", ""),
	} {
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "60" || w.Body.Len() != 0 {
			t.Errorf("a paused source answers %d %q %q, want 503 with Retry-After and no body", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	if len(gate.admissions()) != 0 || len(kept.refusals()) != 0 {
		t.Errorf("it recorded %v and refused %v", gate.admissions(), kept.refusals())
	}
	paused.Store(false)
	if w := send("POST", "", sign(`{"id":"evt_1"}`)); w.Code != http.StatusOK || len(gate.admissions()) != 1 {
		t.Errorf("resumed, it answers %d and has recorded %d", w.Code, len(gate.admissions()))
	}
}
