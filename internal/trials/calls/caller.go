package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// call is one call as a program makes it: repeatedly, to any node that answers, until it has a final answer.
type call struct {
	operation, key, intent string

	// given means that the headers or the session make the key, and the caller sends none.
	given bool

	body   []byte
	header http.Header // in addition to the credential, the operation and the key
	path   string      // below the source; empty for a call
}

// Answer is the final answer to a call.
type Answer struct {
	// Status is the HTTP status.
	Status int

	// Event is the id of the operation.
	Event string

	// Code and State are the members of a problem document, and Result is a result's `status`.
	Code, State, Result string

	// Document is the answer's body.
	Document string

	Header http.Header
}

// The codes of refusals of calls because of another call: it has no settled result, another call follows it already, or it was
// made with the same arguments a moment ago.
const (
	parentUnsettled = "parent_unsettled"
	alreadyFollowed = "already_followed"
	suspectedRepeat = "suspected_repeat"
)

// errUnanswered says that a caller got no final answer in its time.
var errUnanswered = errors.New("no final answer")

// answerWithin is how long a caller repeats its call. A killed worker keeps its lease for a second, and a request that
// hangs takes less than one.
const answerWithin = time.Minute

// make makes the call until the answer is final: a result, or a refusal that no repeat can cure.
func (c *Campaign) make(ctx context.Context, who *credential, k *call) (*Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errUnanswered)
	defer cancel()
	var last string
	for try := c.turn.Add(1); ; try++ {
		a, err := c.once(ctx, who, k, int(try)%len(c.nodes))
		switch {
		case err != nil:
			last = err.Error()
		case a.Status == http.StatusUnauthorized && !who.revoked, a.Status == http.StatusTooManyRequests && !who.spent, a.Status == http.StatusServiceUnavailable,
			a.Status == http.StatusAccepted, a.Status == http.StatusConflict && a.Code == "in_flight",
			a.Code == parentUnsettled && a.State == "in_flight": // an operator has replayed the parent
			last = strconv.Itoa(a.Status) + " " + a.Document
		default:
			return a, nil
		}
		if !rig.Pause(ctx, 20*time.Millisecond) {
			return nil, fmt.Errorf("calling %s under key %q: %w; the last was: %s", k.operation, k.key, context.Cause(ctx), last)
		}
	}
}

// once makes the call at a node.
func (c *Campaign) once(ctx context.Context, who *credential, k *call, node int) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.nodes[node].Public+"/in/agents"+k.path, bytes.NewReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("calling: %w", err)
	}
	req.GetBody = nil // the caller repeats calls itself
	maps.Copy(req.Header, k.header)
	req.Header.Set("Content-Type", "application/json")
	if req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+who.secret())
	}
	if k.operation != "" {
		req.Header.Set("Oncegate-Operation", k.operation)
	}
	req.Header.Set("Prefer", "wait=2")
	if k.key != "" && !k.given {
		req.Header.Set("Idempotency-Key", k.key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling: %w", err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	a := &Answer{Status: resp.StatusCode, Event: resp.Header.Get("Oncegate-Event"), Document: string(content), Header: resp.Header}
	var document struct {
		Event     string `json:"event"`
		Operation string `json:"operation"`
		Status    any    `json:"status"`
		Code      string `json:"code"`
		State     string `json:"state"`
	}
	if json.Unmarshal(content, &document) == nil {
		a.Code, a.State = document.Code, document.State
		a.Result, _ = document.Status.(string)
		if a.Event == "" {
			a.Event = document.Event
		}
	}
	return a, nil
}
