package providers_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// FuzzSessionKey checks for any step and tick that the key belongs to the agent's own run and
// operation, and that no two runs, steps or ticks share a key. The session recognises its call, and
// no other run's session does.
func FuzzSessionKey(f *testing.F) {
	f.Add("42", "3", "", "43", "3", "")
	f.Add("42", "3:4", "", "42", "3", "4")
	f.Add("42", "x", "", "42:x", "y", "")
	f.Add("4", "2%3a3", "1", "4", "2:3", "1")
	f.Add("42", "%sha256-", "", "42", strings.Repeat("x", 300), "")
	f.Add("42", strings.Repeat("x", 300), "1", "42", strings.Repeat("x", 300), "2")
	f.Add(strings.Repeat("r", 256), "1", "", strings.Repeat("r", 255), "r:1", "")
	cat := catalogtest.Load(f)
	p := cat["operation"]
	f.Fuzz(func(t *testing.T, run, step, tick, otherRun, otherStep, otherTick string) {
		call := func(run, step, tick string) (id string, req *providers.Request) {
			req = &providers.Request{Method: http.MethodPost, Header: http.Header{"Oncegate-Operation": {"pay"}, "Oncegate-Step": {step}}}
			if tick != "" {
				req.Header["Oncegate-Tick"] = []string{tick}
			}
			d, err := p.SessionCall(req, providers.Session{Credential: "engine", Run: run})
			if err != nil {
				var refusal *providers.Refusal
				if !errors.As(err, &refusal) || refusal.Problem == "" {
					t.Errorf("a refusal says too little: %v", err)
				}
				return "", req
			}
			return d.Items[0].EventID, req
		}
		one, req := call(run, step, tick)
		two, otherReq := call(otherRun, otherStep, otherTick)
		if one == "" || two == "" || run == "" || otherRun == "" {
			return
		}
		same := run == otherRun && strings.TrimSpace(step) == strings.TrimSpace(otherStep) && strings.TrimSpace(tick) == strings.TrimSpace(otherTick)
		exact := run == otherRun && step == otherStep && tick == otherTick
		if one == two && !same || one != two && exact {
			t.Errorf("%q %q %q has the key %q, and %q %q %q has %q", run, step, tick, one, otherRun, otherStep, otherTick, two)
		}
		if len(one) > 255 || !strings.HasPrefix(one, "engine:pay:") {
			t.Errorf("the key is %q", one)
		}
		mine := providers.Session{Credential: "engine", Run: run}
		if !mine.OwnsCall(one, req) {
			t.Errorf("run %q does not know its call %q", run, one)
		}
		if run != otherRun && mine.OwnsCall(two, otherReq) && two != one {
			t.Errorf("run %q takes %q of run %q for its own", run, two, otherRun)
		}
		if (providers.Session{Credential: "clerk", Run: run}).OwnsCall(one, req) || (providers.Session{Credential: "eng", Run: run}).OwnsCall(one, req) {
			t.Errorf("a session of another credential takes %q for its own", one)
		}
	})
}

// TestSessionCallIsRefused checks that a call under a session with a key or without a step is
// refused with the right problem.
func TestSessionCallIsRefused(t *testing.T) {
	t.Parallel()
	p := operation(t)
	for problem, header := range map[providers.Problem]http.Header{
		providers.ProblemKeyNotAllowed:    {"Oncegate-Operation": {"pay"}, "Oncegate-Step": {"1"}, "Idempotency-Key": {""}},
		providers.ProblemMissingKey:       {"Oncegate-Operation": {"pay"}},
		providers.ProblemInvalidKey:       {"Oncegate-Operation": {"pay"}, "Oncegate-Step": {"1", "2"}},
		providers.ProblemMissingOperation: {"Oncegate-Step": {"1"}},
		providers.ProblemInvalidOperation: {"Oncegate-Operation": {"a:b"}, "Oncegate-Step": {"1"}},
	} {
		_, err := p.SessionCall(&providers.Request{Method: http.MethodPost, Header: header}, providers.Session{Credential: "engine", Run: "42"})
		refusal, ok := errors.AsType[*providers.Refusal](err)
		if !ok || refusal.Problem != problem || refusal.Reason != providers.ReasonUnidentified {
			t.Errorf("%v is refused with %v, want %s", header, err, problem)
		}
	}
}
