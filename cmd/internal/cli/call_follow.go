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

	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/internal/sleep"
)

// callOutcome is the outcome of a call.
type callOutcome string

const (
	callDone          callOutcome = "done"
	callFailed        callOutcome = "failed"
	callPartial       callOutcome = "partial"
	callIndeterminate callOutcome = "indeterminate"
	callRecorded      callOutcome = "recorded"  // its effects are not finished
	callRefused       callOutcome = "refused"   // not recorded; repeating the call cannot help
	callNoAnswer      callOutcome = "no_answer" // no usable response; repeating the call can help
)

// callAnswer is a response to a call, or the reason why there is none.
type callAnswer struct {
	outcome  callOutcome
	status   int
	header   http.Header
	body     []byte
	event    string
	location string
	replayed bool
	recorded bool   // the response is about a recorded operation
	fault    string // why there is no response
}

const (
	// longestPreference is the longest wait that one request asks of the server.
	longestPreference = 30 * time.Second
	// answerWithin is how long a response may take in addition to the requested wait.
	answerWithin = 10 * time.Second
	// defaultPause is the pause between two requests if the server does not specify one.
	defaultPause = time.Second
	// maxAnswer is the maximum number of bytes that are read of a response.
	maxAnswer = 16 << 20
)

// operationCaller makes a call and waits for its result.
type operationCaller struct {
	request       *callRequest
	client        *http.Client
	wait, timeout time.Duration
	waiting       func(fault string, timeout time.Duration) // called once, when the call is repeated
	requests      int
}

// newCallClient returns a client that follows no redirects, because a redirect could send the
// secret to another server.
func newCallClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// run repeats the call until the server has recorded or refused it, and then follows it to its
// result.
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

// follow requests the result of a recorded operation until it is available or the time is up.
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
			// This command's call created the operation, unless the first response said otherwise.
			next.replayed = recorded.status == http.StatusConflict
			return next
		}
	}
}

// ask makes one request. It asks the server to wait up to the given time for the result.
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
		err = inner.Err // the address may contain secrets
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return oneLine(err.Error())
}

// resultDocument contains the fields of a result that the command shows.
type resultDocument struct {
	Event   string         `json:"event"`
	Status  string         `json:"status"`
	Next    operation.Next `json:"next"`
	Parent  string         `json:"parent"`
	Effects []struct {
		Route  string          `json:"route"`
		State  string          `json:"state"`
		Reason string          `json:"reason"`
		Result json.RawMessage `json:"result"`
	} `json:"effects"`
}

// problemDocument contains the fields of a problem document that the command shows.
type problemDocument struct {
	Title  string   `json:"title"`
	Detail string   `json:"detail"`
	Code   string   `json:"code"`
	Event  string   `json:"event"`
	Paths  []string `json:"paths"`
}

// document parses the response as a result. It returns the zero value if the response is not a
// result.
func (a *callAnswer) document() resultDocument {
	var d resultDocument
	if json.Unmarshal(a.body, &d) != nil {
		return resultDocument{}
	}
	return d
}

// advice returns what the user can do after a result other than done.
func (a *callAnswer) advice() string {
	switch event := clean(a.event); a.document().Next {
	case operation.NextResume:
		return "to have the rest done, make the same call under a new key with --resumes " + event
	case operation.NextReplace:
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

// read determines the outcome of the response.
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
		case callRecorded, callRefused, callNoAnswer: // these are not statuses of a result
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

// followURL returns the address of the result: the Location header, if it names the server that was
// called, otherwise the event below the source. This keeps the secret from other servers.
func followURL(source *url.URL, location, event string) string {
	if at, err := source.Parse(location); err == nil && location != "" && at.Scheme == source.Scheme && at.Host == source.Host {
		return at.String()
	}
	return source.JoinPath(event).String()
}

// pause returns how long the server asks the client to wait before the next request.
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

// pause waits for d. It reports whether there is time for another request afterwards.
func pause(ctx context.Context, d time.Duration, until time.Time) bool {
	if time.Now().Add(d).After(until) {
		return false
	}
	return sleep.For(ctx, d) == nil
}

// effectsThat lists the effects of a result that did not end as done.
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

// problem describes in one line why the call was refused.
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
