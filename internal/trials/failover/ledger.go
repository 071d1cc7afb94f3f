package failover

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/ledger"
)

// seen is what senders and targets have seen.
type seen struct {
	mu      sync.Mutex
	sent    map[string]ledger.Event
	ackedAt map[string]time.Time
	// requests has the requests at the target that cannot deduplicate, by event.
	requests map[string][]request

	// once is that target, and keyed the one that deduplicates.
	once, keyed *ledger.Received
	slowly      time.Duration
}

// request is one request at the target that cannot deduplicate.
type request struct {
	at      time.Time
	row     string // the id of the event in the database that it was sent from
	attempt string
}

func newSeen() *seen {
	return &seen{
		sent: map[string]ledger.Event{}, ackedAt: map[string]time.Time{}, requests: map[string][]request{},
		once: ledger.NewReceived(), keyed: ledger.NewReceived(), slowly: 20 * time.Millisecond,
	}
}

// add adds an event that is about to be sent.
func (l *seen) add(id string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id] = ledger.Event{ID: id, Subject: id, Body: body, SHA: sha256.Sum256(body)}
}

func (l *seen) ack(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.sent[id]
	e.Acked++
	l.sent[id] = e
	if e.Acked == 1 {
		l.ackedAt[id] = time.Now()
	}
}

// since counts the acknowledgements after an instant, and returns the time of the first.
func (l *seen) since(at time.Time) (n int, first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, acked := range l.ackedAt {
		if acked.After(at) {
			n++
			if first.IsZero() || acked.Before(first) {
				first = acked
			}
		}
	}
	return n, first
}

// ServeHTTP implements [http.Handler] for both targets.
func (l *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := l.keyed
	if strings.HasPrefix(r.URL.Path, "/once") {
		target = l.once
	}
	event, err := target.Read(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if target == l.once {
		l.mu.Lock()
		l.requests[event] = append(l.requests[event], request{at: time.Now(), row: r.Header.Get("Oncegate-Event"), attempt: r.Header.Get("Oncegate-Attempt")})
		l.mu.Unlock()
	}
	time.Sleep(l.slowly) //nolint:forbidigo // the work that the target does
	target.Answered(event)
}
