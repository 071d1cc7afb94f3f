package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/control"
)

// lossy is a proxy that hands requests on and loses the first answers.
type lossy struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newLossy(t *testing.T, to string, lost int) *lossy {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, forward := &lossy{}, httputil.NewSingleHostReverseProxy(at)
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
		n := len(l.keys)
		l.mu.Unlock()
		if n > lost {
			forward.ServeHTTP(w, r)
			return
		}
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the connection breaks
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *lossy) client(token string) *api.Client {
	return &api.Client{Server: l.URL, Token: token, HTTP: l.Client(), Pause: time.Millisecond}
}

// The first request happens and its answer is lost: the client makes it again under the same key and is told what happened. A
// second discard would find nothing, and answer otherwise.
func TestTheClientRepeatsARequestWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	l := newLossy(t, h.server.URL, 1)
	client := l.client("operate")
	discard := control.DiscardDeadLettersRequest{Explained: control.Explained{Reason: "r"}, IDs: []inbox.ID{effect}}
	out, err := control.Call(t.Context(), client, &control.DiscardDeadLetters, discard)
	if err != nil || out.Discarded.Discarded != 1 {
		t.Errorf("the discard gives %+v, %v", out, err)
	}
	if len(l.keys) != 2 || l.keys[0] == "" || l.keys[0] != l.keys[1] {
		t.Errorf("the keys are %q, want one key twice", l.keys)
	}
	if got := len(h.actors(t, "effect.discard")); got != 1 {
		t.Errorf("%d entries of the audit, want 1", got)
	}
	// Another request of the same command is another one.
	_, err = control.Call(t.Context(), client, &control.DiscardDeadLetters, discard)
	if problem, ok := errors.AsType[*control.Problem](err); !ok || problem.Code != control.CodeConflict || l.keys[2] == l.keys[0] {
		t.Errorf("a second discard gives %v under the keys %q", err, l.keys)
	}
}

// If no answer comes, nobody knows whether it happened, and the client says so. What only reads is not repeated.
func TestTheClientSaysThatAnOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	l := newLossy(t, h.server.URL, 1<<30)
	client := l.client("operate")
	_, err := control.Call(t.Context(), client, &control.ListEvents, control.ListEventsRequest{})
	if _, ok := errors.AsType[*control.Problem](err); err == nil || ok || len(l.keys) != 1 || l.keys[0] != "" {
		t.Errorf("a list gives %v under the keys %q", err, l.keys)
	}
	_, err = control.Call(t.Context(), client, &control.DiscardDeadLetters, control.DiscardDeadLettersRequest{Explained: control.Explained{Reason: "r"}, IDs: []inbox.ID{effect}})
	if problem, ok := errors.AsType[*control.Problem](err); !ok || problem.Code != control.CodeOutcomeUnknown {
		t.Errorf("the discard gives %v, want %s", err, control.CodeOutcomeUnknown)
	}
	if keys := l.keys[1:]; len(keys) < 2 || len(slices.Compact(slices.Clone(keys))) != 1 {
		t.Errorf("the keys are %q, want one key several times", keys)
	}
	if got := len(h.actors(t, "effect.discard")); got != 1 {
		t.Errorf("%d entries of the audit, want 1", got)
	}
}

// The client sends its token to the server that it was given and to nobody else, and reads no answer without end.
func TestTheClientFollowsNoRedirectAndBoundsAnswers(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Header.Get("Authorization") }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, status)
		}))
		t.Cleanup(server.Close)
		client := &api.Client{Server: server.URL, Token: "secret", HTTP: server.Client(), Pause: time.Millisecond}
		_, err := control.Call(t.Context(), client, &control.ListEvents, control.ListEventsRequest{})
		if err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: a list gives %v", status, err)
		}
		_, err = control.Call(t.Context(), client, &control.RunPrune, control.RunPruneRequest{Explained: control.Explained{Reason: "r"}})
		if err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: a decision gives %v", status, err)
		}
	}
	if len(reached) > 0 {
		t.Errorf("the client followed a redirect with %q", <-reached)
	}
	block := make([]byte, 1<<20)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	_, err := control.Call(t.Context(), &api.Client{Server: endless.URL, Token: "secret", HTTP: endless.Client()}, &control.ListEvents, control.ListEventsRequest{})
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("an endless answer gives %v", err)
	}
}
