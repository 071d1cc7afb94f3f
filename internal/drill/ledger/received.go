package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
)

// Requests is what a target has received for one event.
type Requests struct {
	// Complete is how many requests were read to their end. Each of them counts as having happened.
	Complete int

	// Answered is how many of them were answered with success.
	Answered int

	// Keys, Bodies and Attempts count the requests by their idempotency key, by the hash of their bytes, and by the
	// number of the attempt.
	Keys     map[string]int
	Bodies   map[[sha256.Size]byte]int
	Attempts map[string]int
}

// Clone returns a copy.
func (r Requests) Clone() Requests {
	r.Keys, r.Bodies, r.Attempts = maps.Clone(r.Keys), maps.Clone(r.Bodies), maps.Clone(r.Attempts)
	return r
}

// Received records what a target has received, by event id.
type Received struct {
	mu       sync.Mutex
	requests map[string]*Requests
}

// NewReceived returns an empty ledger.
func NewReceived() *Received { return &Received{requests: map[string]*Requests{}} }

// Read reads a request to its end and records it. It returns the event's id, which is the member id of the payload.
func (l *Received) Read(req *http.Request) (event string, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return "", fmt.Errorf("reading a request: %w", err) // the worker was killed in the middle of it
	}
	var document struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &document) != nil || document.ID == "" {
		document.ID = "not an event"
		err = errors.New("reading a request: it is not an event")
	}
	l.Add(document.ID, req.Header.Get("Idempotency-Key"), req.Header.Get("Oncegate-Attempt"), body)
	return document.ID, err
}

// Add records a request.
func (l *Received) Add(event, key, attempt string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.requests[event]
	if r == nil {
		r = &Requests{Keys: map[string]int{}, Bodies: map[[sha256.Size]byte]int{}, Attempts: map[string]int{}}
		l.requests[event] = r
	}
	r.Complete++
	r.Keys[key]++
	r.Bodies[sha256.Sum256(body)]++
	r.Attempts[attempt]++
}

// Answered records that a request was answered with success.
func (l *Received) Answered(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[event].Answered++
}

// Requests returns a copy of the ledger.
func (l *Received) Requests() map[string]Requests {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]Requests, len(l.requests))
	for event, r := range l.requests {
		out[event] = r.Clone()
	}
	return out
}
