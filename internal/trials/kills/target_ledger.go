package kills

import (
	"crypto/sha256"
	"maps"
	"sync"
)

// Route is a kind of target, and the name of the route that leads to it.
type Route string

// The kinds of target.
const (
	// Idempotent deduplicates by its key.
	Idempotent Route = "idempotent"
	// Once cannot deduplicate.
	Once Route = "once"
	// Mail cannot either.
	Mail Route = "mail"
	// Table is a function in the database.
	Table Route = "table"
)

// HasKey says that the route has an effect key, the order of an event: of the events about one order, one happens.
func (r Route) HasKey() bool { return r == Once || r == Table }

// TargetRequests is what a target has received for one event.
type TargetRequests struct {
	// Complete is how many requests or messages were read to their end. Each of them counts as having happened.
	Complete int

	// Answered is how many of them were answered with success up to the last byte.
	Answered int

	Keys     map[string]int
	Bodies   map[[sha256.Size]byte]int
	Attempts map[string]int // by the number of the attempt
}

// TargetLedger is what the targets have received, by event.
type TargetLedger struct {
	mu       sync.Mutex
	requests map[string]*TargetRequests
}

func newTargetLedger() *TargetLedger { return &TargetLedger{requests: map[string]*TargetRequests{}} }

func (l *TargetLedger) recordRequest(event, key, attempt string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.requests[event]
	if h == nil {
		h = &TargetRequests{Keys: map[string]int{}, Bodies: map[[sha256.Size]byte]int{}, Attempts: map[string]int{}}
		l.requests[event] = h
	}
	h.Complete++
	h.Keys[key]++
	h.Bodies[sha256.Sum256(body)]++
	h.Attempts[attempt]++
}

func (l *TargetLedger) recordAnswer(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[event].Answered++
}

// Requests returns a copy of the ledger.
func (l *TargetLedger) Requests() map[string]TargetRequests {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]TargetRequests, len(l.requests))
	for event, h := range l.requests {
		out[event] = TargetRequests{
			Complete: h.Complete, Answered: h.Answered, Keys: maps.Clone(h.Keys), Bodies: maps.Clone(h.Bodies), Attempts: maps.Clone(h.Attempts),
		}
	}
	return out
}
