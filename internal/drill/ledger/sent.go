package ledger

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
)

// Counts counts events, and the deliveries of them by their answers.
type Counts struct {
	Events       int `json:"events"`
	Forged       int `json:"forged_events"`
	Deliveries   int `json:"deliveries"`
	Acknowledged int `json:"acknowledged"`
	Duplicates   int `json:"duplicates"`
	Conflicts    int `json:"conflicts"`
	Refused      int `json:"refused"`
	Unavailable  int `json:"unavailable"` // answers of 5xx
	Unanswered   int `json:"unanswered"`
}

// Sent records what was sent and how it was answered, by event id.
type Sent struct {
	mu     sync.Mutex
	events map[string]*Event
	ids    []string // of the signed events, in order
	counts Counts
	clock  int
}

// NewSent returns an empty ledger.
func NewSent() *Sent { return &Sent{events: map[string]*Event{}} }

// Add adds an event that is about to be sent.
func (l *Sent) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.SHA = sha256.Sum256(e.Body)
	l.events[e.ID] = &e
	if e.Forged {
		l.counts.Forged++
		return
	}
	l.counts.Events++
	l.ids = append(l.ids, e.ID)
}

// Get returns a copy of an event.
func (l *Sent) Get(id string) Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.events[id]
}

// Last returns the signed event that was added last. ok is false if there is none.
func (l *Sent) Last() (e Event, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) == 0 {
		return Event{}, false
	}
	return *l.events[l.ids[len(l.ids)-1]], true
}

// Pick returns a signed event that was sent before, mostly a recent one. ok is false if there is none.
func (l *Sent) Pick(random *rand.Rand) (e Event, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pick(random)
}

func (l *Sent) pick(random *rand.Rand) (e Event, ok bool) {
	n := len(l.ids)
	if n == 0 {
		return Event{}, false
	}
	at := random.IntN(n)
	if random.IntN(2) == 0 {
		at = n - 1 - random.IntN(min(n, 20))
	}
	return *l.events[l.ids[at]], true
}

// payloadVariants is how many conflicting payloads an event gets: more than Oncegate keeps.
const payloadVariants = 8

// PickConflict returns an acknowledged event with a payload that is not its own, and the time. ok is false if there is
// none.
func (l *Sent) PickConflict(random *rand.Rand) (e Event, body []byte, from int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok = l.pick(random)
	if ok && random.IntN(2) == 0 { // a few events get more of them than are kept
		e = *l.events[l.ids[random.IntN(min(len(l.ids), payloadVariants))]]
	}
	if !ok || e.Acked == 0 {
		return Event{}, nil, 0, false
	}
	l.clock++
	other := fmt.Appendf(nil, `{"variant":%d,`, random.IntN(payloadVariants))
	return e, append(other, e.Body[1:]...), l.clock, true
}

// Answered records the answer to a delivery.
func (l *Sent) Answered(id string, a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.ConnectionRefused {
		return
	}
	e := l.events[id]
	l.counts.Deliveries++
	switch {
	case a.Acknowledged():
		e.Acked++
		l.counts.Acknowledged++
		switch a.Receipt {
		case "recorded":
			e.Recorded++
		case "duplicate":
			l.counts.Duplicates++
		default:
			e.OddAnswers++
		}
	default:
		l.countFailure(e, a)
	}
}

// countFailure counts an answer that acknowledges nothing. unknown says that the delivery may have been recorded all the
// same.
func (l *Sent) countFailure(e *Event, a Answer) (unknown bool) {
	switch {
	case a.Status == 0:
		l.counts.Unanswered++
		return true
	case a.Status/100 == 5:
		l.counts.Unavailable++
		return true
	case a.Status/100 == 4:
		e.Refused++
		l.counts.Refused++
	default:
		e.OddAnswers++
	}
	return false
}

// ConflictAnswered records the answer to a conflicting payload. from is the time that PickConflict returned.
func (l *Sent) ConflictAnswered(id string, body []byte, from int, a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.ConnectionRefused {
		return
	}
	e, sum := l.events[id], sha256.Sum256(body)
	l.counts.Deliveries++
	l.clock++
	c := e.Conflicting[sum]
	c.LastAnsweredAt = max(c.LastAnsweredAt, l.clock)
	switch {
	case a.Acknowledged() && a.Receipt == "conflict":
		c.Acked++
		c.LastAckSentAt = max(c.LastAckSentAt, from)
		l.counts.Acknowledged++
		l.counts.Conflicts++
	case a.Acknowledged():
		e.OddAnswers++
	case l.countFailure(e, a):
		c.LastAnsweredAt = math.MaxInt // it may be kept at any time
	}
	if e.Conflicting == nil {
		e.Conflicting = map[[sha256.Size]byte]Conflict{}
	}
	e.Conflicting[sum] = c
}

// Counts returns the counts.
func (l *Sent) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// Events returns a copy of the ledger, by event id.
func (l *Sent) Events() map[string]Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]Event, len(l.events))
	for id, e := range l.events {
		copied := *e
		copied.Conflicting = maps.Clone(e.Conflicting)
		out[id] = copied
	}
	return out
}
