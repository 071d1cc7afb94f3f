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

// SentEvent is what the senders know about one event.
type SentEvent struct {
	// Order is what the event is about. Some events are about the order of another event, so that only one of them
	// may be carried out.
	Order string

	Body []byte
	SHA  [sha256.Size]byte

	// Forged says that the event was sent only with a wrong signature.
	Forged bool

	Acked      int // answers of 2xx
	Recorded   int // of these, the answers that called the event new
	Refused    int // answers of 4xx
	OddAnswers int // answers that no delivery may get

	// Conflicting has, by their hash, the payloads that were delivered under the event's id after the event had been
	// acknowledged.
	Conflicting map[[sha256.Size]byte]ConflictingPayload
}

// ConflictingPayload is what the senders know about a payload that conflicts with its event. Its times count requests.
type ConflictingPayload struct {
	Acked int

	// LastAckSentAt is when the last acknowledged request was sent, and LastAnsweredAt when the last request was
	// answered. A request without an answer may still arrive at any time.
	LastAckSentAt, LastAnsweredAt int
}

// SenderLedger records what was sent and acknowledged, by event id.
type SenderLedger struct {
	run string

	mu           sync.Mutex
	events       map[string]*SentEvent
	ids          []string // of the signed events, in order
	requests     int
	acked        int
	duplicates   int
	unanswered   int // sent, and no answer came
	serverErrors int // 5xx
	forged       int
	conflicts    int
	clock        int
}

func newSenderLedger(run string) *SenderLedger {
	return &SenderLedger{run: run, events: map[string]*SentEvent{}}
}

// newEvent makes a new event.
func (l *SenderLedger) newEvent(random *rand.Rand, forged bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := fmt.Sprintf("evt_%s_%06d", l.run, len(l.events))
	order := "order_" + id
	if !forged && len(l.ids) > 0 && random.IntN(5) == 0 {
		order = l.events[l.ids[len(l.ids)-1]].Order
	}
	filler := make([]byte, 100+random.IntN(600))
	for i := range filler {
		filler[i] = byte(random.UintN(256))
	}
	body := fmt.Appendf(nil, `{"id":%q,"order":%q,"object":"event","type":"invoice.paid","pending_webhooks":1,"note":"für %s €","data":{"object":{"id":"in_%d","filler":"%s"}}}`,
		id, order, strings.Repeat("x", random.IntN(30)), random.Uint32(), hex.EncodeToString(filler))
	l.events[id] = &SentEvent{Order: order, Body: body, SHA: sha256.Sum256(body), Forged: forged}
	if forged {
		l.forged++
	} else {
		l.ids = append(l.ids, id)
	}
	return id
}

// pickEvent returns an event that was sent before, mostly a recent one. ok is false if there is none.
func (l *SenderLedger) pickEvent(random *rand.Rand) (string, bool) {
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

func (l *SenderLedger) body(id string) (body []byte, forged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[id].Body, l.events[id].Forged
}

// payloadVariants is how many conflicting payloads an event gets: more than are kept.
const payloadVariants = 8

// pickConflict returns an acknowledged event with a payload that is not its own, and the time. ok is false if there is
// none.
func (l *SenderLedger) pickConflict(random *rand.Rand) (id string, body []byte, from int, ok bool) {
	id, ok = l.pickEvent(random)
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok && random.IntN(2) == 0 { // a few events get more of them than are kept
		id = l.ids[random.IntN(min(len(l.ids), 8))]
	}
	if !ok || l.events[id].Acked == 0 {
		return "", nil, 0, false
	}
	l.clock++
	other := fmt.Appendf(nil, `{"variant":%d,`, random.IntN(payloadVariants))
	return id, append(other, l.events[id].Body[1:]...), l.clock, true
}

// recordConflictAnswer records the answer to a conflicting payload.
func (l *SenderLedger) recordConflictAnswer(id string, body []byte, from int, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.connectionRefused {
		return
	}
	e, sum := l.events[id], sha256.Sum256(body)
	l.requests++
	l.clock++
	o := e.Conflicting[sum]
	o.LastAnsweredAt = max(o.LastAnsweredAt, l.clock)
	switch {
	case a.acknowledged() && a.receiptStatus == "conflict":
		o.Acked++
		o.LastAckSentAt = max(o.LastAckSentAt, from)
		l.acked++
		l.conflicts++
	case a.acknowledged():
		e.OddAnswers++
	case a.status/100 == 4:
		e.Refused++
	case a.status/100 == 5:
		l.serverErrors++
		o.LastAnsweredAt = math.MaxInt // it may have been kept all the same
	default:
		l.unanswered++
		o.LastAnsweredAt = math.MaxInt
	}
	if e.Conflicting == nil {
		e.Conflicting = map[[sha256.Size]byte]ConflictingPayload{}
	}
	e.Conflicting[sum] = o
}

// answer is how a request ended.
type answer struct {
	status            int // 0: no answer came
	receiptStatus     string
	connectionRefused bool // no process was listening
}

func (a answer) acknowledged() bool { return a.status/100 == 2 }

// recordAnswer records the answer to a delivery.
func (l *SenderLedger) recordAnswer(id string, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.connectionRefused {
		return
	}
	e := l.events[id]
	l.requests++
	switch {
	case a.acknowledged():
		e.Acked++
		l.acked++
		switch a.receiptStatus {
		case "recorded":
			e.Recorded++
		case "duplicate":
			l.duplicates++
		default:
			e.OddAnswers++
		}
	case a.status/100 == 4:
		e.Refused++
	case a.status/100 == 5:
		l.serverErrors++
	case a.status == 0:
		l.unanswered++
	default:
		e.OddAnswers++
	}
}

// Events returns a copy of the ledger.
func (l *SenderLedger) Events() map[string]SentEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]SentEvent, len(l.events))
	for id, e := range maps.All(l.events) {
		copied := *e
		copied.Conflicting = maps.Clone(e.Conflicting)
		out[id] = copied
	}
	return out
}
