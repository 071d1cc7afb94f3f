package forward

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
)

// HeaderTest is the id of a test event. Every test event has it, and no attempt does.
const HeaderTest = "Oncegate-Test" // an interface: never change

// TestType is the type of a test event, and TestSource the name of its source.
const (
	TestType   = "oncegate.test"
	TestSource = "test"
)

// TestReport is what a target answered to a test event.
type TestReport struct {
	// ID is the id of the test event, and Key its idempotency key.
	ID, Key string

	// Answers are the answers in the order of the requests: one, or two if the target deduplicates by the key.
	Answers []TestAnswer
}

// TestAnswer is the answer to one request.
type TestAnswer struct {
	effect.Result
	Elapsed time.Duration
}

// CheckTest reports what would prevent [SendTest], without sending anything.
func CheckTest(cfg *Config, address string, body []byte) error {
	if err := CheckTestAddress(cfg, address); err != nil {
		return err
	}
	if len(body) > 0 && !json.Valid(body) {
		return errors.New("the body is not JSON")
	}
	return nil
}

// CheckTestAddress reports why a test event must not be sent to an address: it has expressions, or it is where the
// target does its work.
func CheckTestAddress(cfg *Config, address string) error {
	_, expressions, err := SplitAddress(address)
	switch {
	case err != nil:
		return err
	case len(expressions) > 0:
		return errors.New("a test event has no values for expressions in braces")
	case plainAddress(address) == plainAddress(cfg.URL):
		return errors.New("this is the address that does the work: name another one for tests")
	}
	_, err = targetURL(address)
	return err
}

// SendTest sends a test event to an address as an attempt at the target would be sent: with its method, headers and
// signatures. body must be JSON; empty is a small document with the id and the time. If the target deduplicates by the
// key, SendTest sends the same request again under the same key. It returns an error, and has sent nothing, if the
// configuration or the address cannot be used.
func SendTest(ctx context.Context, cfg Config, address string, body []byte) (*TestReport, error) { //nolint:gocritic // like New
	if err := CheckTest(&cfg, address, body); err != nil {
		return nil, err
	}
	cfg.URL, cfg.Values, cfg.Connections = address, nil, 1
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &TestReport{ID: "test_" + rand.Text()}
	t.Key = "test:" + t.ID
	// New refuses configured headers with this prefix, so this is not one of them.
	f.cfg.Headers = maps.Clone(cfg.Headers)
	if f.cfg.Headers == nil {
		f.cfg.Headers = map[string]string{}
	}
	f.cfg.Headers[HeaderTest] = t.ID
	now := f.cfg.Now()
	if len(body) == 0 {
		body = fmt.Appendf(nil, `{"id":%q,"type":%q,"created_at":%q}`, t.ID, TestType, now.UTC().Format(time.RFC3339))
	}
	requests := 1
	if cfg.Idempotent {
		requests = 2
	}
	for attempt := range requests {
		began := f.cfg.Now()
		r := f.Send(ctx, &effect.Call{
			Event: effect.Event{
				ID: t.ID, Source: TestSource, EventID: t.ID, Type: TestType, ReceivedAt: now, Body: body, ContentType: "application/json",
			},
			Route: TestSource, Key: t.Key, Attempt: attempt + 1,
		})
		t.Answers = append(t.Answers, TestAnswer{Result: r, Elapsed: f.cfg.Now().Sub(began)})
		if r.Outcome != effect.Done {
			break // a repeat of what has failed says nothing about the key
		}
	}
	return t, nil
}

// Repeat is how a target answered the second request of a test.
type Repeat string

// The answers to a repeat.
const (
	// RepeatNone: there was no second request.
	RepeatNone Repeat = ""
	// RepeatRecognised: the target said that it knew the key.
	RepeatRecognised Repeat = "recognised"
	// RepeatSame: the target gave the same answer again and did not say that it knew the key.
	RepeatSame Repeat = "same"
	// RepeatDifferent: the target gave another answer, so it may have done the work twice.
	RepeatDifferent Repeat = "different"
	// RepeatFailed: the target did not accept the repeat.
	RepeatFailed Repeat = "failed"
)

// Meaning says in words what the answer to the second request shows. It is empty if there was none.
func (r Repeat) Meaning() string {
	switch r {
	case RepeatRecognised:
		return "the target said that it knew the key when the key came again"
	case RepeatSame:
		return "the target gave the same answer when the key came again, and did not say that it knew the key"
	case RepeatDifferent:
		return "the target answered the same key differently: it may have done the work twice, so idempotent: true may be wrong"
	case RepeatFailed:
		return "the target accepted the key once and not again: a retry after a lost answer would fail"
	case RepeatNone:
	}
	return ""
}

// Repeat says how the target answered the second request.
func (t *TestReport) Repeat() Repeat {
	if len(t.Answers) < 2 {
		return RepeatNone
	}
	first, second := &t.Answers[0], &t.Answers[1]
	switch {
	case second.Outcome != effect.Done:
		return RepeatFailed
	case second.Recognised:
		return RepeatRecognised
	case first.Code == second.Code && first.Excerpt == second.Excerpt:
		return RepeatSame
	}
	return RepeatDifferent
}

// Passed says whether the target accepted every request, and gave no other answer to the repeat.
func (t *TestReport) Passed() bool {
	switch t.Repeat() {
	case RepeatDifferent, RepeatFailed:
		return false
	case RepeatNone, RepeatRecognised, RepeatSame:
	}
	return t.Answers[0].Outcome == effect.Done
}
