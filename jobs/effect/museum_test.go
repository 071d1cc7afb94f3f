package effect_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
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
		return effect.Result{Outcome: effect.Dead, Reason: effect.ReasonRender}
	}
	req.Header.Set("Idempotency-Key", call.Key)
	if w.how == "fresh key" {
		req.Header.Set("Idempotency-Key", call.Key+strconv.Itoa(call.Attempt))
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return effect.Result{Outcome: effect.Retry, Reason: effect.ReasonConnect, Excerpt: effecttest.Secret}
	}
	defer reply.Body.Close()
	said, _ := io.ReadAll(reply.Body)
	if reply.StatusCode < 300 {
		return effect.Result{Outcome: effect.Done, Code: strconv.Itoa(reply.StatusCode), Excerpt: string(said)}
	}
	return effect.Result{Outcome: effect.Retry, Reason: effect.ReasonStatus5xx, Code: strconv.Itoa(reply.StatusCode), Excerpt: string(said)}
}

// sender changes what another one finds out.
type sender struct {
	effect.Sender
	change func(*effect.Result)
}

func (s sender) Send(ctx context.Context, call *effect.Call) effect.Result {
	result := s.Sender.Send(ctx, call)
	s.change(&result)
	return result
}

// repeats takes what is unknown for undone.
func repeats(r *effect.Result) {
	if r.Outcome == effect.Unknown {
		r.Outcome = effect.Retry
	}
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
			return sender{newForward(tb, effect.ForwardConfig{
				URL: to.URL, Sign: []string{effecttest.Secret}, Idempotent: to.Idempotent, RetryOn: to.RetryOn, Resolver: to.Resolver,
			}), change}
		}, effect.DefaultKeyHeader))
		return
	}
	effecttest.Run(t, effecttest.Forward(func(tb testing.TB, to effecttest.ForwardTo) effect.Sender {
		return &wrongForward{Sender: newForward(tb, effect.ForwardConfig{URL: to.URL, Idempotent: to.Idempotent}), how: *exhibit, url: to.URL}
	}, effect.DefaultKeyHeader))
}

func TestExhibitMail(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, effecttest.Mail(func(tb testing.TB, to effecttest.MailTo) (effect.Sender, func(*effect.Call, string) ([]byte, error)) {
		if *exhibit == "in the clear" {
			to.Plain = true
		}
		right, render := mailTo(tb, to)
		switch *exhibit {
		case "repeats after the dot":
			return sender{right, repeats}, render
		case "quotes the server":
			return sender{right, func(r *effect.Result) { r.Excerpt = "535 not with " + effecttest.Password }}, render
		case "fresh Message-ID":
			return right, func(call *effect.Call, to string) ([]byte, error) {
				call.Key += strconv.Itoa(call.Attempt)
				return render(call, to)
			}
		}
		return right, render
	}))
}

func TestExhibitHandler(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, effecttest.Outside(func(_ testing.TB, handle effecttest.Handle) effect.Sender {
		return sender{&effect.OutsideHandler{Handle: handle}, repeats}
	}))
}

func TestTheSuiteFailsWrongKinds(t *testing.T) {
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
		{"TestExhibitMail", "repeats after the dot", []effecttest.Topic{effecttest.BreaksAfter, effecttest.StallsAfter, effecttest.HalfReply}},
		{"TestExhibitMail", "quotes the server", []effecttest.Topic{effecttest.Secrets}},
		{"TestExhibitMail", "fresh Message-ID", []effecttest.Topic{effecttest.Repeats}},
		{"TestExhibitMail", "in the clear", []effecttest.Topic{effecttest.BreaksBefore}},
		{"TestExhibitHandler", "repeats what may have happened", []effecttest.Topic{effecttest.BreaksAfter, effecttest.AnswersAfter, effecttest.StallsAfter}},
	} {
		t.Run(c.exhibit, func(t *testing.T) {
			t.Parallel()
			effecttest.Fails(t, c.test, c.exhibit, c.fails...)
		})
	}
}
