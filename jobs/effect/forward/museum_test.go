package forward_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

var exhibit = flag.String("exhibit", "", "the wrong kind that an exhibit puts before the suite")

// wrongForward sends as one would at first, with one of the ways to be wrong.
type wrongForward struct {
	effect.Sender
	how string
	url string
}

func (w *wrongForward) Send(ctx context.Context, call *effect.Call) effect.Result {
	body := call.Event.Body
	if w.how == "reserialised" {
		body = append([]byte{byte('0' + call.Attempt)}, body...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
	}
	req.Header.Set("Idempotency-Key", call.Key)
	if w.how == "fresh key" {
		req.Header.Set("Idempotency-Key", call.Key+strconv.Itoa(call.Attempt))
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return effect.Result{Outcome: effect.Retry, Reason: reasons.Connect, Excerpt: effecttest.Secret}
	}
	defer reply.Body.Close()
	said, _ := io.ReadAll(reply.Body)
	if reply.StatusCode < 300 {
		return effect.Result{Outcome: effect.Done, Code: strconv.Itoa(reply.StatusCode), Excerpt: string(said)}
	}
	return effect.Result{Outcome: effect.Retry, Reason: reasons.Status5xx, Code: strconv.Itoa(reply.StatusCode), Excerpt: string(said)}
}

// repeatsAnswers takes a 503, a 408, a 409 and a 425 for answers that precede the
// work, whatever the target says about them.
func repeatsAnswers(r *effect.Result) {
	switch r.Code {
	case "408", "409", "425", "503":
		r.Outcome = effect.Retry
	}
}

// repeatsGateways does so with what proxies answer in a target's place.
func repeatsGateways(r *effect.Result) {
	switch r.Code {
	case "502", "504":
		r.Outcome = effect.Retry
	}
}

// refusesForms takes the redirect that follows a form's work for a refusal: a
// redelivery would send the event again.
func refusesForms(r *effect.Result) {
	switch r.Code {
	case "302", "303":
		r.Outcome = effect.Dead
	}
}

func TestExhibitForward(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	if change := map[string]func(*effect.Result){
		"repeats answers": repeatsAnswers, "repeats what proxies answer": repeatsGateways, "refuses forms": refusesForms,
	}[*exhibit]; change != nil {
		effecttest.Run(t, effecttest.Forward(func(tb testing.TB, to effecttest.ForwardTo) effect.Sender {
			return effecttest.Changed(newForward(tb, forward.Config{
				URL: to.URL, Sign: []string{effecttest.Secret}, Idempotent: to.Idempotent, RetryOn: to.RetryOn, Resolver: to.Resolver,
			}), change)
		}, forward.DefaultKeyHeader))
		return
	}
	effecttest.Run(t, effecttest.Forward(func(tb testing.TB, to effecttest.ForwardTo) effect.Sender {
		return &wrongForward{Sender: newForward(tb, forward.Config{URL: to.URL, Idempotent: to.Idempotent}), how: *exhibit, url: to.URL}
	}, forward.DefaultKeyHeader))
}

func TestTheSuiteFailsWrongForwards(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		test, exhibit string
		fails         []effecttest.Topic
	}{
		{"TestExhibitForward", "the obvious way", []effecttest.Topic{
			effecttest.Refuses, effecttest.Later, effecttest.Forbidden, effecttest.BreaksBefore, effecttest.BreaksAfter, effecttest.AnswersAfter, effecttest.StallsAfter, effecttest.HalfReply,
			effecttest.SlowReply, effecttest.HugeReply, effecttest.Secrets,
		}},
		{"TestExhibitForward", "repeats answers", []effecttest.Topic{effecttest.AnswersAfter}},
		{"TestExhibitForward", "repeats what proxies answer", []effecttest.Topic{effecttest.AnswersAfter}},
		{"TestExhibitForward", "refuses forms", []effecttest.Topic{effecttest.AnswersAfter}},
		{"TestExhibitForward", "fresh key", []effecttest.Topic{effecttest.Repeats}},
		{"TestExhibitForward", "reserialised", []effecttest.Topic{effecttest.Repeats}},
	} {
		t.Run(c.exhibit, func(t *testing.T) {
			t.Parallel()
			effecttest.Fails(t, c.test, c.exhibit, c.fails...)
		})
	}
}
