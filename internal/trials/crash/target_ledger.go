package crash

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
)

// Requests is what a target has received for one event.
type Requests struct {
	Count  int
	Keys   map[string]int
	Bodies map[[sha256.Size]byte]int
}

// TargetLedger is a target that deduplicates by Idempotency-Key. It records every request, and sometimes fails
// afterwards, with a 503 or by closing the connection.
type TargetLedger struct {
	mu       sync.Mutex
	requests map[string]*Requests
}

func newTargetLedger() *TargetLedger { return &TargetLedger{requests: map[string]*Requests{}} }

// ServeHTTP implements [http.Handler].
func (s *TargetLedger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the worker was killed in the middle of the request
	}
	var event struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		event.ID = "not JSON"
	}
	s.recordRequest(event.ID, req.Header.Get("Idempotency-Key"), body)
	switch n := rand.IntN(100); { //nolint:gosec // which calls fail is no secret
	case n < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
	case n < 6:
		panic(http.ErrAbortHandler)
	}
}

func (s *TargetLedger) recordRequest(id, key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.requests[id]
	if c == nil {
		c = &Requests{Keys: map[string]int{}, Bodies: map[[sha256.Size]byte]int{}}
		s.requests[id] = c
	}
	c.Count++
	c.Keys[key]++
	c.Bodies[sha256.Sum256(body)]++
}

// Requests returns a copy of the ledger, by event id.
func (s *TargetLedger) Requests() map[string]Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Requests, len(s.requests))
	for id, c := range s.requests {
		out[id] = Requests{Count: c.Count, Keys: maps.Clone(c.Keys), Bodies: maps.Clone(c.Bodies)}
	}
	return out
}
