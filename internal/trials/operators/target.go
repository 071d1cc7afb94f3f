package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// request is one request as a target received it.
type request struct {
	key, route string // route is set for ordered targets only
	attempt    string
	event      string // <source>/<event id>
	body       [sha256.Size]byte
	at         time.Time // when it had been read completely
	once       bool      // the target cannot deduplicate

	// answer is the status of the answer; 0 is none.
	answer int
	payload
}

// payload is the body of an event.
type payload struct {
	Type     string `json:"type"`
	Marker   string `json:"marker"`
	Order    string `json:"order,omitempty"`
	Number   int    `json:"number,omitempty"`
	Customer string `json:"customer,omitempty"`

	// Fault is how the targets treat the event, and Faults for how many requests of a key they do so.
	Fault  string `json:"fault,omitempty"`
	Faults int    `json:"faults,omitempty"`
}

// isRefusal reports whether the answer says that nothing happened: the target was busy or refused the request.
func (r *request) isRefusal() bool {
	return r.answer == http.StatusTooManyRequests || r.answer == http.StatusBadRequest || r.answer == http.StatusGone
}

// probeAnswer is a probe's question and the answer it got.
type probeAnswer struct {
	key  string
	at   time.Time
	done bool
}

// happened reports whether the target has performed the request, with any answer. It performs half of the requests
// without a clear answer.
func (r *request) happened() bool {
	return r.answer == http.StatusOK || !r.isRefusal() && r.body[0]%2 == 0
}

// targetLedger is both targets. It answers as the event says, and records everything.
type targetLedger struct {
	mu        sync.Mutex
	faultless bool // every request is answered with 200
	requests  []*request
	probes    []probeAnswer
	byKey     map[string][]*request // by key
}

// endFaults ends all faults.
func (s *targetLedger) endFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultless = true
}

// answerProbe answers a probe.
func (s *targetLedger) answerProbe(w http.ResponseWriter, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := probeAnswer{key: key, at: time.Now(), done: slices.ContainsFunc(s.byKey[key], (*request).happened)}
	s.probes = append(s.probes, p)
	if !p.done {
		w.WriteHeader(http.StatusNotFound)
	}
}

// probesSince returns the probes from a place on.
func (s *targetLedger) probesSince(place int) []probeAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.probes)[place:]
}

// requestsSince returns the requests from a place on.
func (s *targetLedger) requestsSince(place int) []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.requests)[place:]
}

// The faults that an event can ask for.
const (
	faultBusy    = "busy"    // 429
	faultRefused = "refused" // 400
	faultGone    = "gone"    // 410
	faultFailed  = "failed"  // 500
	faultDown    = "down"    // 503
	faultHang    = "hang"    // no answer
	faultReset   = "reset"   // the connection is dropped
	faultMixed   = "mixed"   // one after the other
)

var faults = []string{faultBusy, faultRefused, faultGone, faultFailed, faultDown, faultHang, faultReset, faultMixed}

// answers are the statuses of answers. 0 closes the connection, and -1 does not answer.
var answers = map[string]int{
	"": http.StatusOK, faultBusy: http.StatusTooManyRequests, faultRefused: http.StatusBadRequest, faultGone: http.StatusGone,
	faultFailed: http.StatusInternalServerError, faultDown: http.StatusServiceUnavailable, faultHang: -1, faultReset: 0,
}

// ServeHTTP implements [http.Handler].
func (s *targetLedger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if key, asks := strings.CutPrefix(req.URL.Path, "/probe/"); asks {
		s.answerProbe(w, key)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the worker was killed in the middle of the request
	}
	r := &request{
		key: req.Header.Get("Idempotency-Key"), attempt: req.Header.Get("Oncegate-Attempt"), event: req.Header.Get("Oncegate-Source") + "/" + req.Header.Get("Oncegate-Event-Id"), body: sha256.Sum256(body),
		once: strings.HasPrefix(req.URL.Path, "/once"), route: strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, "/once"), "/idem"),
	}
	r.route = strings.TrimPrefix(r.route, "/")
	if err := json.Unmarshal(body, &r.payload); err != nil {
		r.Marker = "not an event"
	}
	status := s.recordRequest(r)
	switch {
	case status > 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		// What a target says about an event is content too.
		_, _ = fmt.Fprintf(w, `{"said":%q}`, r.Marker) // the caller may be gone
		return
	case status < 0:
		rig.Pause(req.Context(), time.Minute) // until the caller's timeout
	}
	panic(http.ErrAbortHandler)
}

// recordRequest records a request, and returns how it is answered.
func (s *targetLedger) recordRequest(r *request) (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.at = time.Now()
	n := len(s.byKey[r.key])
	s.byKey[r.key] = append(s.byKey[r.key], r)
	fault := r.Fault
	switch {
	case n >= r.Faults || s.faultless:
		fault = ""
	case fault == faultMixed:
		h := fnv.New32a()
		_, _ = fmt.Fprintf(h, "%s %d", r.Marker, n) // never fails
		fault = faults[h.Sum32()%uint32(len(faults)-1)]
	}
	status = answers[fault]
	r.answer = max(status, 0)
	s.requests = append(s.requests, r)
	return status
}
