package calls

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"sync"
)

// Sink is a target of the campaign.
type Sink string

// The sinks.
const (
	// Once cannot deduplicate: it does the work of every request that it takes.
	Once Sink = "once"
	// Same does the work of a key once, and answers every repeat as it answered first.
	Same Sink = "same"
)

// Fault is what a sink does with a request, instead of the work and its answer.
type Fault string

// The faults.
const (
	// Refuse answers 422 without the work.
	Refuse Fault = "refuse"
	// Busy answers 429 without the work.
	Busy Fault = "busy"
	// HangUp does the work and closes the connection.
	HangUp Fault = "hang up"
	// Silence does the work and does not answer before the caller gives up.
	Silence Fault = "silence"
)

// sinks are both targets. They know the work by the member `intent` of the body, which the caller chose, and not by any
// key: a second key for one intent is a second work.
type sinks struct {
	mu       sync.Mutex
	schedule map[Sink]map[string][]Fault
	works    map[Sink]map[string]int
	keys     map[string]bool // of which Same has done the work
	requests int
	held     map[string]*hold
}

// hold keeps a request of an intent at the sink, after its work, until it is released.
type hold struct {
	arrived, release chan struct{}
	arrive           sync.Once
}

func newSinks() *sinks {
	return &sinks{
		schedule: map[Sink]map[string][]Fault{Once: {}, Same: {}}, works: map[Sink]map[string]int{Once: {}, Same: {}},
		keys: map[string]bool{}, held: map[string]*hold{},
	}
}

// plan says what the sink does with the first requests of an intent. It answers all later ones.
func (s *sinks) plan(sink Sink, intent string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule[sink][intent] = faults
}

// holdNext makes Once hold the first request of an intent.
func (s *sinks) holdNext(intent string) *hold {
	h := &hold{arrived: make(chan struct{}), release: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[intent] = h
	return h
}

// ServeHTTP implements [http.Handler].
func (s *sinks) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	content, err := io.ReadAll(req.Body)
	if err != nil {
		return // the worker was killed in the middle of the request
	}
	var body struct {
		Intent string `json:"intent"`
	}
	if err := json.Unmarshal(content, &body); err != nil || body.Intent == "" {
		http.Error(w, "no intent", http.StatusBadRequest)
		return
	}
	sink := Sink(req.URL.Path[1:])
	fault, h := s.take(sink, body.Intent, req.Header.Get("Idempotency-Key"))
	if h != nil {
		h.arrive.Do(func() { close(h.arrived) })
		<-h.release
	}
	switch fault {
	case Refuse:
		http.Error(w, `{"error":"the account is closed"}`, http.StatusUnprocessableEntity)
	case Busy:
		w.Header().Set("Retry-After", "0")
		http.Error(w, "busy", http.StatusTooManyRequests)
	case HangUp:
		panic(http.ErrAbortHandler)
	case Silence:
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}
}

// take does the work of a request and says what to answer.
func (s *sinks) take(sink Sink, intent, key string) (Fault, *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	var fault Fault
	if next := s.schedule[sink][intent]; len(next) > 0 {
		fault, s.schedule[sink][intent] = next[0], next[1:]
	}
	if fault == Refuse || fault == Busy {
		return fault, nil
	}
	if sink == Once || !s.keys[key] {
		s.works[sink][intent]++
	}
	if sink == Once {
		return fault, s.held[intent]
	}
	s.keys[key] = true
	return fault, nil
}

// done returns what each sink has done, by intent.
func (s *sinks) done() map[Sink]map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[Sink]map[string]int{}
	for sink, works := range s.works {
		out[sink] = maps.Clone(works)
	}
	return out
}
