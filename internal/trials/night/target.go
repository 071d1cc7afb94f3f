package night

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// Mode is how the billing target behaves.
type Mode int32

// The modes, in the order of the night.
const (
	// Up: it does what a request asks, once for each key.
	Up Mode = iota
	// Unavailable: it answers 503 and does nothing.
	Unavailable
	// Hanging: it reads the request, does nothing and does not answer.
	Hanging
	// Resetting: it does what a request asks and closes the connection without an answer.
	Resetting
)

// The paths of the targets. Both paths of billing lead to the same ledger.
const (
	pathBilling = "/billing/hooks"
	pathMoved   = "/v2/billing/hooks"
	pathArchive = "/archive"
)

// Request is one request as a target received it.
type Request struct {
	Path, Key, Event string

	// Body is the SHA-256 of its bytes, in hex.
	Body string

	// Mode is how the target treated the request.
	Mode Mode
}

// targetLedger records for all targets what was asked and what was done. It does what a key asks for once.
type targetLedger struct {
	mode atomic.Int32

	mu       sync.Mutex
	requests []Request
	done     map[string]int // by key
}

func newTargetLedger() *targetLedger { return &targetLedger{done: map[string]int{}} }

func (t *targetLedger) setMode(mode Mode) { t.mode.Store(int32(mode)) }

// ServeHTTP implements [http.Handler].
func (t *targetLedger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the worker was killed in the middle of the request
	}
	mode := Mode(t.mode.Load())
	if req.URL.Path == pathArchive {
		mode = Up
	}
	sum := sha256.Sum256(body)
	t.recordRequest(Request{
		Path: req.URL.Path, Key: req.Header.Get("Idempotency-Key"), Event: req.Header.Get("Oncegate-Event"), Body: hex.EncodeToString(sum[:]), Mode: mode,
	})
	switch mode {
	case Up:
	case Unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
	case Hanging:
		rig.Pause(req.Context(), time.Minute) // longer than the caller waits
		panic(http.ErrAbortHandler)
	case Resetting:
		panic(http.ErrAbortHandler)
	}
}

func (t *targetLedger) recordRequest(r Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, r)
	if (r.Mode == Up || r.Mode == Resetting) && t.done[r.Key] == 0 {
		t.done[r.Key]++
	}
}

// requestCount is the number of requests so far.
func (t *targetLedger) requestCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.requests)
}
