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

// Calls is what a target has been told about one event.
type Calls struct {
	Count  int
	Keys   map[string]int
	Bodies map[[sha256.Size]byte]int
}

// Sink is a target that deduplicates by Idempotency-Key. It writes down every
// call, and sometimes fails after it has: with 503, or by hanging up.
type Sink struct {
	mu    sync.Mutex
	calls map[string]*Calls
}

func newSink() *Sink { return &Sink{calls: map[string]*Calls{}} }

// ServeHTTP implements [http.Handler].
func (s *Sink) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the caller was killed: it told us nothing
	}
	var event struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		event.ID = "not JSON"
	}
	s.note(event.ID, req.Header.Get("Idempotency-Key"), body)
	switch n := rand.IntN(100); { //nolint:gosec // which calls fail is no secret
	case n < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
	case n < 6:
		panic(http.ErrAbortHandler)
	}
}

func (s *Sink) note(id, key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[id]
	if c == nil {
		c = &Calls{Keys: map[string]int{}, Bodies: map[[sha256.Size]byte]int{}}
		s.calls[id] = c
	}
	c.Count++
	c.Keys[key]++
	c.Bodies[sha256.Sum256(body)]++
}

// Calls is a copy of what was written down, by event id.
func (s *Sink) Calls() map[string]Calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Calls, len(s.calls))
	for id, c := range s.calls {
		out[id] = Calls{Count: c.Count, Keys: maps.Clone(c.Keys), Bodies: maps.Clone(c.Bodies)}
	}
	return out
}
