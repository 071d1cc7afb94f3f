package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
)

// externalTarget is a target outside the database that deduplicates. For each key it remembers the number that came
// last, and ignores it if it comes again. Any other number counts as new, so that a number that is sent after its
// successor is noticed.
type externalTarget struct {
	mu      sync.Mutex
	applied map[string][]int
	err     error
}

func newExternalTarget() *externalTarget { return &externalTarget{applied: map[string][]int{}} }

// ServeHTTP implements [http.Handler].
func (o *externalTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event struct {
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
	took := o.applied[event.Key]
	if len(took) > 0 && took[len(took)-1] == event.Number {
		return
	}
	o.applied[event.Key] = append(took, event.Number)
}
