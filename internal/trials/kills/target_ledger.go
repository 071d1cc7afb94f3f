package kills

import (
	"crypto/sha256"
	"maps"
	"sync"
)

// Route is a sort of target, and the name of the route that leads there.
type Route string

// The sorts.
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

// Heard is what a target has heard of one event.
type Heard struct {
	// Whole is how many requests or messages were read to their end: each is taken
	// to have happened.
	Whole int

	// Answered is how many of them were answered with success to the last byte.
	Answered int

	Keys     map[string]int
	Bodies   map[[sha256.Size]byte]int
	Attempts map[string]int // by the number that the worker gives them
}

// Ledger is what the targets have heard, by event.
type Ledger struct {
	mu    sync.Mutex
	heard map[string]*Heard
}

func newLedger() *Ledger { return &Ledger{heard: map[string]*Heard{}} }

func (l *Ledger) whole(event, key, attempt string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.heard[event]
	if h == nil {
		h = &Heard{Keys: map[string]int{}, Bodies: map[[sha256.Size]byte]int{}, Attempts: map[string]int{}}
		l.heard[event] = h
	}
	h.Whole++
	h.Keys[key]++
	h.Bodies[sha256.Sum256(body)]++
	h.Attempts[attempt]++
}

func (l *Ledger) answered(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[event].Answered++
}

// Heard is a copy of the ledger.
func (l *Ledger) Heard() map[string]Heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]Heard, len(l.heard))
	for event, h := range l.heard {
		out[event] = Heard{
			Whole: h.Whole, Answered: h.Answered, Keys: maps.Clone(h.Keys), Bodies: maps.Clone(h.Bodies), Attempts: maps.Clone(h.Attempts),
		}
	}
	return out
}
