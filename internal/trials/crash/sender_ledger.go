package crash

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

// Sent is what the senders know about one event.
type Sent struct {
	Body []byte
	SHA  [sha256.Size]byte

	// Forged: it was only ever sent with a wrong signature.
	Forged bool

	Acked    int // answers of 2xx
	Recorded int // those that said it was the first
	Refused  int // answers of 4xx
	Odd      int // answers that no delivery of ours may get

	// Others are the payloads that were delivered under its id after it had been
	// acknowledged, by their hash.
	Others map[[sha256.Size]byte]Other
}

// Other is what the senders know about a payload that conflicts with its event. Times
// are counted in requests.
type Other struct {
	Acked int

	// AckedFrom is when the last acknowledged request was sent, and LastTo when the last
	// one was answered: one that never was may arrive at any time.
	AckedFrom, LastTo int
}

// Ledger is what was sent and acknowledged, by event id.
type Ledger struct {
	run string

	mu         sync.Mutex
	events     map[string]*Sent
	ids        []string // signed ones, in order
	requests   int
	acked      int
	duplicates int
	ambiguous  int // sent, and no answer came
	faults     int // 5xx
	forged     int
	conflicts  int
	clock      int
}

func newLedger(run string) *Ledger { return &Ledger{run: run, events: map[string]*Sent{}} }

// add makes a new event.
func (l *Ledger) add(random *rand.Rand, forged bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := fmt.Sprintf("evt_%s_%06d", l.run, len(l.events))
	filler := make([]byte, 100+random.IntN(600))
	for i := range filler {
		filler[i] = byte(random.UintN(256))
	}
	body := fmt.Appendf(nil, `{"id":%q,"object":"event","type":"invoice.paid","pending_webhooks":1,"note":"für %s €","data":{"object":{"id":"in_%d","filler":"%s"}}}`,
		id, strings.Repeat("x", random.IntN(30)), random.Uint32(), hex.EncodeToString(filler))
	l.events[id] = &Sent{Body: body, SHA: sha256.Sum256(body), Forged: forged}
	if forged {
		l.forged++
	} else {
		l.ids = append(l.ids, id)
	}
	return id
}

// any gives an event that was sent before, if there is one: mostly a recent one.
func (l *Ledger) any(random *rand.Rand) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.ids)
	if n == 0 {
		return "", false
	}
	if random.IntN(2) == 0 {
		return l.ids[n-1-random.IntN(min(n, 20))], true
	}
	return l.ids[random.IntN(n)], true
}

func (l *Ledger) body(id string) (body []byte, forged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[id].Body, l.events[id].Forged
}

// variants is how many conflicting payloads an event gets: more than are kept.
const variants = 8

// conflict gives an event that was acknowledged, if there is one, with a payload that
// is not its own, and the time.
func (l *Ledger) conflict(random *rand.Rand) (id string, body []byte, from int, ok bool) {
	id, ok = l.any(random)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok && random.IntN(2) == 0 { // a few events get more of them than are kept
		id = l.ids[random.IntN(min(len(l.ids), 8))]
	}
	if !ok || l.events[id].Acked == 0 {
		return "", nil, 0, false
	}
	l.clock++
	other := fmt.Appendf(nil, `{"variant":%d,`, random.IntN(variants))
	return id, append(other, l.events[id].Body[1:]...), l.clock, true
}

// noteConflict writes down the answer to a payload that conflicts.
func (l *Ledger) noteConflict(id string, body []byte, from int, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.unsent {
		return
	}
	e, sum := l.events[id], sha256.Sum256(body)
	l.requests++
	l.clock++
	o := e.Others[sum]
	o.LastTo = max(o.LastTo, l.clock)
	switch {
	case a.acknowledged() && a.says == "conflict":
		o.Acked++
		o.AckedFrom = max(o.AckedFrom, from)
		l.acked++
		l.conflicts++
	case a.acknowledged():
		e.Odd++
	case a.status/100 == 4:
		e.Refused++
	case a.status/100 == 5:
		l.faults++
		o.LastTo = math.MaxInt // it may have been kept all the same
	default:
		l.ambiguous++
		o.LastTo = math.MaxInt
	}
	if e.Others == nil {
		e.Others = map[[sha256.Size]byte]Other{}
	}
	e.Others[sum] = o
}

// answer is how a request ended.
type answer struct {
	status int // 0: no answer came
	says   string
	unsent bool // nobody was listening
}

func (a answer) acknowledged() bool { return a.status/100 == 2 }

// note writes an answer down.
func (l *Ledger) note(id string, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.unsent {
		return
	}
	e := l.events[id]
	l.requests++
	switch {
	case a.acknowledged():
		e.Acked++
		l.acked++
		switch a.says {
		case "recorded":
			e.Recorded++
		case "duplicate":
			l.duplicates++
		default:
			e.Odd++
		}
	case a.status/100 == 4:
		e.Refused++
	case a.status/100 == 5:
		l.faults++
	case a.status == 0:
		l.ambiguous++
	default:
		e.Odd++
	}
}

// Events is a copy of the ledger.
func (l *Ledger) Events() map[string]Sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]Sent, len(l.events))
	for id, e := range maps.All(l.events) {
		copied := *e
		copied.Others = maps.Clone(e.Others)
		out[id] = copied
	}
	return out
}
