package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/sleep"
)

// callOutcome says how a call ended.
type callOutcome string

const (
	callDone          callOutcome = "done"
	callFailed        callOutcome = "failed"
	callPartial       callOutcome = "partial"
	callIndeterminate callOutcome = "indeterminate"
	callRecorded      callOutcome = "recorded"  // its effects go on
	callRefused       callOutcome = "refused"   // it was not recorded, and repeating it cannot help
	callNoAnswer      callOutcome = "no_answer" // repeating it can help
)

// callAnswer is an answer to a call, or what came instead of one.
type callAnswer struct {
	outcome  callOutcome
	status   int
	header   http.Header
	body     []byte
	event    string
	location string
	replayed bool
	recorded bool   // it answers a question about a recorded operation
	fault    string // why there is no answer
}

const (
	// longestPreference is how long one request asks the server to wait.
	longestPreference = 30 * time.Second
	// answerWithin is how long one answer may take beside that.
	answerWithin = 10 * time.Second
	// defaultPause is between two requests where the server does not say.
	defaultPause = time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 16 << 20
)

// operationCaller makes a call and follows it.
type operationCaller struct {
	request       *callRequest
	client        *http.Client
	wait, timeout time.Duration
	waiting       func(fault string, timeout time.Duration) // told once that the call is repeated
	requests      int
}

// newCallClient makes a client that follows no redirect, which could take the secret elsewhere.
func newCallClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// run calls until the server has recorded or refused the call, and then follows it to its result.
func (c *operationCaller) run(ctx context.Context) *callAnswer {
	until := time.Now().Add(c.timeout)
	for {
		began := time.Now()
		last := c.ask(ctx, http.MethodPost, c.request.url, min(c.wait, longestPreference))
		switch {
		case last.outcome == callRecorded && c.wait > 0:
			return c.follow(ctx, last, began.Add(c.wait))
		case last.outcome != callNoAnswer:
			return last
		}
		if c.requests == 1 {
			c.waiting(last.fault, c.timeout)
		}
		if !pause(ctx, last.pause(), until) {
			last.fault = fmt.Sprintf("%s was not answered within %s: %s", cleanURL(c.request.url.String()), c.timeout, last.fault)
			return last
		}
	}
}

// follow asks for the result of a recorded operation until it is there.
func (c *operationCaller) follow(ctx context.Context, recorded *callAnswer, until time.Time) *callAnswer {
	last := recorded
	at, err := url.Parse(recorded.location)
	if err != nil || recorded.event == "" {
		return recorded
	}
	for {
		if !pause(ctx, last.pause(), until) {
			return last
		}
		next := c.ask(ctx, http.MethodGet, at, min(time.Until(until), longestPreference))
		next.event, next.location = recorded.event, recorded.location
		switch next.outcome {
		case callRecorded, callNoAnswer:
			last = next
		case callRefused:
			next.recorded = true
			return next
		default:
			// The call of this command made the operation, unless the first answer said otherwise.
			next.replayed = recorded.status == http.StatusConflict
			return next
		}
	}
}

// ask makes one request. It asks the server to wait that long for the result.
func (c *operationCaller) ask(ctx context.Context, method string, to *url.URL, wait time.Duration) *callAnswer {
	c.requests++
	request := c.request.newRequest(method, to)
	if seconds := int(math.Ceil(wait.Seconds())); seconds > 0 {
		request.Header.Set("Prefer", "wait="+strconv.Itoa(seconds))
	}
	ctx, cancel := context.WithTimeout(ctx, wait+answerWithin)
	defer cancel()
	response, err := c.client.Do(request.WithContext(ctx))
	if err != nil {
		return &callAnswer{outcome: callNoAnswer, fault: noAnswer(err)}
	}
	defer response.Body.Close()
	out := &callAnswer{status: response.StatusCode, header: response.Header}
	if out.body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer)); err != nil {
		return &callAnswer{outcome: callNoAnswer, fault: noAnswer(err)}
	}
	out.read(c.request.url)
	return out
}

func noAnswer(err error) string {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // the address may hold more than it should
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return oneLine(err.Error())
}

// resultDocument is the part of a result that is shown.
type resultDocument struct {
	Event   string     `json:"event"`
	Status  string     `json:"status"`
	Next    inbox.Next `json:"next"`
	Parent  string     `json:"parent"`
	Effects []struct {
		Route  string          `json:"route"`
		State  string          `json:"state"`
		Reason string          `json:"reason"`
		Result json.RawMessage `json:"result"`
	} `json:"effects"`
}

// problemDocument is the part of a problem document that is shown.
type problemDocument struct {
	Title  string   `json:"title"`
	Detail string   `json:"detail"`
	Code   string   `json:"code"`
	Event  string   `json:"event"`
	Paths  []string `json:"paths"`
}

// document reads the answer as a result. It is empty where the answer is none.
func (a *callAnswer) document() resultDocument {
	var d resultDocument
	if json.Unmarshal(a.body, &d) != nil {
		return resultDocument{}
	}
	return d
}

// advice says what to do next after a result that is not done.
func (a *callAnswer) advice() string {
	switch event := clean(a.event); a.document().Next {
	case inbox.NextResume:
		return "to have the rest done, make the same call under a new key with --resumes " + event
	case inbox.NextReplace:
		return "the same call ends the same way; to have another one done, call under a new key with --instead-of " + event
	default:
		return "a person has to look at it first: oncegate events show " + event
	}
}

func (a *callAnswer) problemDocument() problemDocument {
	var d problemDocument
	if json.Unmarshal(a.body, &d) != nil {
		return problemDocument{}
	}
	return d
}

// read decides what the answer means.
func (a *callAnswer) read(source *url.URL) {
	document := a.document()
	a.event = cmp.Or(a.header.Get("Oncegate-Event"), document.Event, a.problemDocument().Event)
	a.replayed = a.header.Get("Idempotent-Replayed") == "true"
	if a.event != "" {
		a.location = followURL(source, a.header.Get("Location"), a.event)
	}
	switch a.status {
	case http.StatusOK:
		switch outcome := callOutcome(document.Status); outcome {
		case callDone, callFailed, callPartial, callIndeterminate:
			a.outcome = outcome
			return
		case callRecorded, callRefused, callNoAnswer: // no status of a result
		}
		a.outcome = callRefused
	case http.StatusAccepted:
		a.outcome = callRecorded
		if a.event == "" {
			a.outcome = callRefused
		}
	case http.StatusConflict:
		a.outcome = callRefused
		if a.problemDocument().Code == "in_flight" {
			a.outcome = callRecorded
		}
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		a.outcome = callNoAnswer
	default:
		a.outcome = callRefused
		if a.status >= http.StatusInternalServerError {
			a.outcome = callNoAnswer
		}
	}
	if a.outcome == callNoAnswer {
		a.fault = "it answered " + strconv.Itoa(a.status)
		if p := a.problemDocument(); p.Title != "" {
			a.fault += ", " + clean(oneLine(p.Title))
		}
	}
}

// followURL is where the result is asked for: the Location, if it is of the server that was called,
// else the event below the source. The secret goes to no other server.
func followURL(source *url.URL, location, event string) string {
	if at, err := source.Parse(location); err == nil && location != "" && at.Scheme == source.Scheme && at.Host == source.Host {
		return at.String()
	}
	return source.JoinPath(event).String()
}

// pause says how long the server wants to be left alone.
func (a *callAnswer) pause() time.Duration {
	text := a.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return defaultPause
}

// pause waits, and reports whether there is time left for another request afterwards.
func pause(ctx context.Context, d time.Duration, until time.Time) bool {
	if time.Now().Add(d).After(until) {
		return false
	}
	return sleep.For(ctx, d) == nil
}

// effectsThat names the effects of a result that ended otherwise than done.
func (a *callAnswer) effectsThat(outcome string) string {
	var parts []string
	for _, e := range a.document().Effects {
		if e.State == "done" || outcome == "indeterminate" && e.State != "indeterminate" {
			continue
		}
		text := e.Route + " is " + e.State
		if e.Reason != "" {
			text += ", " + e.Reason
		}
		parts = append(parts, clean(text))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

// problem says why the call was refused, in one line.
func (a *callAnswer) problem(r *callRequest) string {
	p := a.problemDocument()
	text := strconv.Itoa(a.status)
	if p.Code != "" {
		text += " " + p.Code
	}
	switch {
	case p.Title != "":
		text += ": " + p.Title
	case a.status == http.StatusOK || a.status == http.StatusAccepted || a.status >= 300 && a.status < 400:
		text += ": that is not how Oncegate answers; check --url"
	case a.status == http.StatusUnauthorized:
		text += ": source " + r.source + " has no credential with this secret"
	case a.status == http.StatusNotFound && a.event != "":
		text += ": the operation is not known there any more"
	case a.status == http.StatusNotFound:
		text += ": there is no source " + r.source + " at " + cleanURL(r.url.String())
	case a.status == http.StatusRequestEntityTooLarge:
		text += ": the payload is larger than the source takes"
	case a.status == http.StatusUnsupportedMediaType:
		text += ": the source does not take this content type"
	case a.status == http.StatusMethodNotAllowed:
		text += ": source " + r.source + " takes no operations"
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	if len(p.Paths) > 0 {
		text += "; what differs: " + strings.Join(p.Paths, ", ")
	}
	return clean(oneLine(text))
}
