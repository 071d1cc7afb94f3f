package ledger

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Target is an HTTP target that does its work, which is to record the request, and then sometimes fails: it answers with
// 503, closes the connection, or does not answer in time.
type Target struct {
	*Received

	// Hang is how long a request hangs that is not answered in time. 0 lets none hang.
	Hang time.Duration
}

// ServeHTTP implements [http.Handler].
func (t *Target) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	event, err := t.Read(req)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch n := rand.IntN(100); { //nolint:gosec // which requests fail is no secret
	case n < 3:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case n < 6:
		panic(http.ErrAbortHandler)
	case n < 7 && t.Hang > 0:
		select {
		case <-req.Context().Done():
		case <-time.After(t.Hang):
		}
		panic(http.ErrAbortHandler)
	}
	t.Answered(event)
}
