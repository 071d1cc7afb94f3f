package receiver_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

// sessions keeps sessions in memory and counts the lookups.
type sessions struct {
	mu      sync.Mutex
	opened  map[[sha256.Size]byte]*operation.AgentSession
	lookups int
}

func (s *sessions) Open(_ context.Context, digest [sha256.Size]byte, opened *operation.AgentSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened[digest] = opened
	return nil
}

func (s *sessions) Find(_ context.Context, source int32, digest [sha256.Size]byte) (*operation.AgentSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups++
	if found := s.opened[digest]; found != nil && found.SourceID == source {
		return found, nil
	}
	return nil, inbox.ErrNotFound
}

func (s *sessions) End(context.Context, inbox.ID) error { return nil }

func (s *sessions) OperationKey(context.Context, inbox.ID) (string, error) {
	return "", inbox.ErrNotFound
}

func (s *sessions) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lookups
	s.lookups = 0
	return n
}

// sessionBench serves sessions with a clock and credentials of the test's.
type sessionBench struct {
	handler http.Handler
	store   *sessions
	mu      sync.Mutex
	now     time.Time
	secrets []providers.Secret
}

func newSessionBench(t *testing.T) *sessionBench {
	t.Helper()
	b := &sessionBench{
		store: &sessions{opened: map[[sha256.Size]byte]*operation.AgentSession{}}, now: time.Unix(1_800_000_000, 0),
		secrets: []providers.Secret{{Name: "engine", Value: []byte("one")}, {Name: "clerk", Value: []byte("two")}},
	}
	cfg := operationsConfig(t, answering(inbox.Recorded), &outcomes{settled: true}, func(s *receiver.Source) {
		s.Sessions = receiver.SessionLimits{Longest: 8 * time.Hour}
		s.Secrets = func() []providers.Secret {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.secrets
		}
	})
	cfg.Sessions = b.store
	cfg.Now = func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.now
	}
	b.handler = newReceiver(t, cfg)
	return b
}

func (b *sessionBench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// give opens a session behind the receiver's back, as another process does.
func (b *sessionBench) give(token, credential string) {
	_ = b.store.Open(context.Background(), operation.TokenDigest(token), &operation.AgentSession{
		ID: inbox.NewID(b.now), SourceID: 9, Credential: credential, Run: "42", CreatedAt: b.now, ExpiresAt: b.now.Add(time.Hour),
	})
}

func (b *sessionBench) call(t *testing.T, token, peer string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/agents", strings.NewReader(`{}`))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Oncegate-Operation", "charge")
	req.Header.Set("Oncegate-Step", "1")
	req.RemoteAddr = peer + ":1234"
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	return w
}

func tokenOf(n int) string { return fmt.Sprintf("ogs_%043d", n) }

// Guessed tokens cause few lookups in the database, and do not delay a caller whose token was accepted before.
func TestGuessedTokensBuyNoLookups(t *testing.T) {
	t.Parallel()
	b := newSessionBench(t)
	b.give(tokenOf(1), "engine")
	if w := b.call(t, tokenOf(1), "192.0.2.1"); w.Code != 202 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if n := b.store.asked(); n != 1 {
		t.Errorf("a session took %d lookups", n)
	}
	for range 50 {
		b.call(t, tokenOf(1), "192.0.2.1")
	}
	if n := b.store.asked(); n != 0 {
		t.Errorf("calls in the same moment took %d lookups", n)
	}
	for _, token := range []string{"wrong", "ogs_", tokenOf(2) + "x", "ogs_" + strings.Repeat("!", 43), strings.ToUpper(tokenOf(2))} {
		if w := b.call(t, token, "192.0.2.1"); w.Code != 401 {
			t.Errorf("%s gets %d", token, w.Code)
		}
	}
	if n := b.store.asked(); n != 0 {
		t.Errorf("what is no token took %d lookups", n)
	}
	statuses := map[int]int{}
	for i := range 1000 {
		statuses[b.call(t, tokenOf(100+i), "198.51.100.7").Code]++
	}
	if n := b.store.asked(); n != 20 || statuses[401] != 20 || statuses[503] != 980 {
		t.Errorf("1000 guesses of one peer took %d lookups and got %v", n, statuses)
	}
	// Many peers share a bound too.
	for i := range 1000 {
		b.call(t, tokenOf(5000+i), fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	if n := b.store.asked(); n > 200 {
		t.Errorf("1000 guesses of 1000 peers took %d lookups", n)
	}
	// Nothing is left for unknown tokens, and the known one is read again all the same.
	b.pass(2 * time.Second)
	for i := range 1000 {
		b.call(t, tokenOf(9000+i), fmt.Sprintf("10.2.%d.%d", i/250, i%250))
	}
	b.store.asked()
	if w := b.call(t, tokenOf(1), "10.2.0.1"); w.Code != 202 {
		t.Errorf("a known token gets %d", w.Code)
	}
	if n := b.store.asked(); n != 1 {
		t.Errorf("a known token took %d lookups", n)
	}
	// A genuine token that is new here is put off, not refused, and is not charged for.
	b.give(tokenOf(3), "engine")
	if w := b.call(t, tokenOf(3), "203.0.113.1"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("a new token in the flood gets %d", w.Code)
	}
	b.pass(time.Second)
	for i := range 40 {
		b.give(tokenOf(200_000+i), "engine")
		if w := b.call(t, tokenOf(200_000+i), "203.0.113.1"); w.Code != 202 {
			t.Fatalf("genuine token %d gets %d", i, w.Code)
		}
	}
}

// A session lives as long as its credential has a secret that is accepted: a rotation does not end
// it, and the removal of the credential does, at once.
func TestASessionEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	b := newSessionBench(t)
	b.give(tokenOf(1), "engine")
	status := func(want int, code string) {
		t.Helper()
		if w := b.call(t, tokenOf(1), "192.0.2.1"); w.Code != want || !strings.Contains(w.Body.String(), code) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, want, code)
		}
	}
	become := func(secrets ...providers.Secret) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.secrets = secrets
	}
	status(202, "recorded")
	become(providers.Secret{Name: "env:NEW", Credential: "engine", Value: []byte("three")})
	status(202, "recorded")
	become(providers.Secret{Name: "clerk", Value: []byte("two")})
	status(401, "session_revoked")
	become(providers.Secret{Name: "engine", Value: []byte("one"), NotAfter: b.now.Add(-time.Second)})
	status(401, "session_revoked")
	become(providers.Secret{Name: "engine", Value: []byte("one")})
	status(202, "recorded")
	b.pass(2 * time.Hour)
	status(401, "session_expired")
}

// Where sessions are not offered, their addresses are what they were.
func TestSessionsAreNotOfferedByThemselves(t *testing.T) {
	t.Parallel()
	h := operations(t, answering(inbox.Recorded), &outcomes{}, nil)
	w := operateAt(t, h, "agents/sessions")
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := operate(t, h, "Authorization", "Bearer "+tokenOf(1)); w.Code != 401 {
		t.Errorf("a token is answered %d", w.Code)
	}
	cfg := operationsConfig(t, answering(inbox.Recorded), &outcomes{}, func(s *receiver.Source) { s.Sessions.Longest = time.Hour })
	if _, err := receiver.New(cfg); err == nil || !strings.Contains(err.Error(), "Config.Sessions") {
		t.Errorf("sessions without a store: %v", err)
	}
}
