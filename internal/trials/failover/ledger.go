package failover

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ledger is what senders and targets have seen.
type ledger struct {
	mu     sync.Mutex
	acked  map[string]time.Time
	once   map[string][]request      // at the target that cannot deduplicate
	keyed  map[string]map[string]int // requests at the one that can, by key
	slowly time.Duration
}

// request is one request at the target that cannot deduplicate.
type request struct {
	at      time.Time
	row     string // the id of the event in the database that it was sent from
	attempt string
}

func newLedger() *ledger {
	return &ledger{acked: map[string]time.Time{}, once: map[string][]request{}, keyed: map[string]map[string]int{}, slowly: 20 * time.Millisecond}
}

func (l *ledger) ack(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.acked[id]; !again {
		l.acked[id] = time.Now()
	}
}

// since counts the acknowledgements after an instant, and returns the time of the first.
func (l *ledger) since(at time.Time) (n int, first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, acked := range l.acked {
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
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var event struct {
		ID string `json:"id"`
	}
	if err != nil || json.Unmarshal(body, &event) != nil || event.ID == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	if strings.HasPrefix(r.URL.Path, "/once") {
		l.once[event.ID] = append(l.once[event.ID], request{at: time.Now(), row: r.Header.Get("Oncegate-Event"), attempt: r.Header.Get("Oncegate-Attempt")})
	} else {
		if l.keyed[event.ID] == nil {
			l.keyed[event.ID] = map[string]int{}
		}
		l.keyed[event.ID][r.Header.Get("Idempotency-Key")]++
	}
	l.mu.Unlock()
	time.Sleep(l.slowly) //nolint:forbidigo // the work that the target does
	w.WriteHeader(http.StatusOK)
}
