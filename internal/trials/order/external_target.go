package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/oncegate/oncegate/internal/drill/invariant"
)

// externalTarget is a target outside the database that deduplicates. For each key it remembers the number that came
// last, and ignores it if it comes again. Any other number counts as new, so that a number that is sent after its
// successor is noticed.
type externalTarget struct {
	mu      sync.Mutex
	last    map[string]int // number of each key
	applied []invariant.Applied
	err     error
}

func newExternalTarget() *externalTarget { return &externalTarget{last: map[string]int{}} }

// read returns what was applied, in order.
func (o *externalTarget) read() ([]invariant.Applied, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.applied), o.err
}

// ServeHTTP implements [http.Handler].
func (o *externalTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event struct {
		ID     string `json:"id"`
		Key    string `json:"key"`
		Number int    `json:"number"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the worker was killed
	}
	if err = json.Unmarshal(body, &event); err == nil && r.Header.Get("Idempotency-Key") == "" {
		err = errors.New("a request has no key")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if o.last[event.Key] == event.Number {
		return
	}
	o.last[event.Key] = event.Number
	o.applied = append(o.applied, invariant.Applied{Route: "it", Event: event.ID, Stream: event.Key, Number: event.Number})
}
