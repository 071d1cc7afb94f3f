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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
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
	callDocument
	outcome  callOutcome
	status   int
	header   http.Header
	body     []byte
	location string
	replayed bool
	recorded bool   // the response is about a recorded operation
	fault    string // why there is no response
}

// callDocument contains the fields of a result, and of a problem document, that the command shows.
type callDocument struct {
	Event   string         `json:"event"`
	Status  any            `json:"status"` // the outcome of a result, or the HTTP status of a problem
	Next    operation.Next `json:"next"`
	Parent  string         `json:"parent"`
	Effects []struct {
		Route  string          `json:"route"`
		State  string          `json:"state"`
		Reason string          `json:"reason"`
		Result json.RawMessage `json:"result"`
	} `json:"effects"`
	Title  string   `json:"title"`
	Detail string   `json:"detail"`
	Code   string   `json:"code"`
	Paths  []string `json:"paths"`
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
	wait, timeout time.Duration
	waiting       func(fault string, timeout time.Duration) // called once, when the call is repeated
	requests      int
}

// callClient follows no redirects, because a redirect could send the secret to another server.
var callClient = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

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
		if !waitFor(ctx, last.pause(), until) {
			last.fault = fmt.Sprintf("%s was not answered within %s: %s", cleanURL(c.request.url.String()), c.timeout, last.fault)
			return last
		}
	}
}

// follow requests the result of a recorded operation until it is available or the time is up.
func (c *operationCaller) follow(ctx context.Context, recorded *callAnswer, until time.Time) *callAnswer {
	last := recorded
	at, err := url.Parse(recorded.location)
	if err != nil || recorded.Event == "" {
		return recorded
	}
	for {
		if !waitFor(ctx, last.pause(), until) {
			return last
		}
		next := c.ask(ctx, http.MethodGet, at, min(time.Until(until), longestPreference))
		next.Event, next.location = recorded.Event, recorded.location
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
	ctx, cancel := context.WithTimeout(ctx, wait+answerWithin)
	defer cancel()
	request, err := c.request.newRequest(ctx, method, to)
	if err != nil {
		return &callAnswer{outcome: callNoAnswer, fault: noAnswer(err)}
	}
	if seconds := int(math.Ceil(wait.Seconds())); seconds > 0 {
		request.Header.Set("Prefer", "wait="+strconv.Itoa(seconds))
	}
	response, err := callClient.Do(request)
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

// errorCode returns the code of a refusal: that of the answer, if the documentation explains it.
func (a *callAnswer) errorCode() errorcode.Code {
	if code := errorcode.Code(a.Code); errorcode.IsOfCall(code) {
		return code
	}
	return errorcode.CallRefused
}

// advice returns what the user can do after a result other than done.
func (a *callAnswer) advice() string {
	switch event := clean(a.Event); a.Next {
	case operation.NextResume:
		return "to have the rest done, make the same call under a new key with --resumes " + event
	case operation.NextReplace:
		return "the same call ends the same way; to have another one done, call under a new key with --instead-of " + event
	default:
		return "a person has to look at it first: oncegate events show " + event
	}
}

// read determines the outcome of the response.
func (a *callAnswer) read(source *url.URL) {
	_ = json.Unmarshal(a.body, &a.callDocument) // what cannot be read is empty
	result, isResult := a.Status.(string)
	if !isResult {
		a.Next = ""
	}
	a.Event = cmp.Or(a.header.Get("Oncegate-Event"), a.Event)
	a.replayed = a.header.Get("Idempotent-Replayed") == "true"
	if a.Event != "" {
		a.location = followURL(source, a.header.Get("Location"), a.Event)
	}
	a.outcome = callRefused
	switch ended := []callOutcome{callDone, callFailed, callPartial, callIndeterminate}; {
	case a.status == http.StatusOK && slices.Contains(ended, callOutcome(result)):
		a.outcome = callOutcome(result)
	case a.status == http.StatusAccepted && a.Event != "", a.status == http.StatusConflict && a.Code == "in_flight":
		a.outcome = callRecorded
	case a.status == http.StatusRequestTimeout, a.status == http.StatusTooManyRequests, a.status >= http.StatusInternalServerError:
		a.outcome = callNoAnswer
		a.fault = "it answered " + strconv.Itoa(a.status)
		if a.Title != "" {
			a.fault += ", " + clean(oneLine(a.Title))
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

// waitFor waits for d. It reports whether there is time for another request afterwards.
func waitFor(ctx context.Context, d time.Duration, until time.Time) bool {
	if time.Now().Add(d).After(until) {
		return false
	}
	return sleep.For(ctx, d) == nil
}

// effectsThat lists the effects of a result that did not end as done.
func (a *callAnswer) effectsThat(outcome string) string {
	var parts []string
	for _, e := range a.Effects {
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

// bareStatuses explain the refusals that have no document. %s is the source.
var bareStatuses = map[int]string{
	http.StatusUnauthorized:          "source %s has no credential with this secret",
	http.StatusRequestEntityTooLarge: "the payload is larger than source %s takes",
	http.StatusUnsupportedMediaType:  "source %s does not take this content type",
	http.StatusMethodNotAllowed:      "source %s takes no operations",
}

// problem describes in one line why the call was refused.
func (a *callAnswer) problem(r *callRequest) string {
	text := strings.TrimSpace(strconv.Itoa(a.status) + " " + a.Code)
	bare := bareStatuses[a.status]
	switch {
	case a.Title != "":
		text += ": " + a.Title
	case a.status < 400:
		text += ": that is not how Oncegate answers; check --url"
	case a.status == http.StatusNotFound && a.Event != "":
		text += ": the operation is not known there any more"
	case a.status == http.StatusNotFound:
		text += ": there is no source " + r.source + " at " + cleanURL(r.url.String())
	case bare != "":
		text += ": " + fmt.Sprintf(bare, r.source)
	}
	if a.Detail != "" {
		text += ": " + a.Detail
	}
	if len(a.Paths) > 0 {
		text += "; what differs: " + strings.Join(a.Paths, ", ")
	}
	return clean(oneLine(text))
}
