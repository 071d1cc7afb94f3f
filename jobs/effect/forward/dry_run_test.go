package forward_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// working is a target that does work at /work and tells at /dry what it would do.
type working struct {
	*httptest.Server
	worked []string // the requests that did work
	asked  []string // the questions, with their bodies
	header http.Header
	status int
	answer string
}

func newWorking(tb testing.TB) *working {
	tb.Helper()
	w := &working{status: http.StatusOK, answer: `{"ok":true}`}
	w.Server = httptest.NewServer(http.HandlerFunc(func(reply http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.header = r.Header.Clone()
		if r.URL.Path == "/pay" && r.URL.Query().Get("dry") == "" {
			w.worked = append(w.worked, r.Method+" "+r.RequestURI)
		} else {
			w.asked = append(w.asked, r.Method+" "+r.RequestURI+" "+string(body))
		}
		reply.Header().Set("Location", "/pay")
		reply.Header().Set("Retry-After", "7")
		reply.WriteHeader(w.status)
		_, _ = io.WriteString(reply, w.answer)
	}))
	tb.Cleanup(w.Close)
	return w
}

func (w *working) real() *forward.Config {
	return &forward.Config{URL: w.URL + "/pay", Idempotent: true, Headers: map[string]string{"X-Account": "7"}, Sign: []string{effecttest.Secret}}
}

// question is what an attempt would send, and the question about it.
func (w *working) question() *effect.DryCall {
	event := effecttest.Call(1).Event
	return &effect.DryCall{
		ID: "dry_1", Event: event, Route: "pay", Today: effect.Request{Method: http.MethodPost, Address: w.URL + "/pay", Body: []byte(`{"sum":7}`)},
	}
}

func (w *working) runner(tb testing.TB, cfg forward.DryRunnerConfig) *forward.DryRunner {
	tb.Helper()
	cfg.Real = w.real()
	cfg.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	runner, err := forward.NewDryRunner(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(runner.Close)
	return runner
}

// The question has what is declared for it, is signed as the question that it is, and has nothing else of the target.
func TestDryRunAsksWhatIsDeclared(t *testing.T) {
	t.Parallel()
	w := newWorking(t)
	d := w.runner(t, forward.DryRunnerConfig{URL: w.URL + "/dry", Method: http.MethodPut, Headers: map[string]string{"X-Mode": "dry"}, Sign: []string{effecttest.Secret}})
	if got := d.DryRun(t.Context(), w.question()); got.Outcome != effect.DryAccepted || got.Code != "200" || string(got.Body) != `{"ok":true}` || got.Reason != "" {
		t.Errorf("%+v", got)
	}
	if len(w.asked) != 1 || w.asked[0] != `PUT /dry {"sum":7}` {
		t.Errorf("asked %q", w.asked)
	}
	for name, want := range map[string]string{
		"Oncegate-Dry-Run": "dry_1", "X-Mode": "dry", "Webhook-Id": "dry_1", "Webhook-Timestamp": "1700000000", "Oncegate-Event-Type": "order.paid",
		"Idempotency-Key": "", "X-Account": "", "Oncegate-Attempt": "", "Traceparent": "",
	} {
		if got := w.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.header.Get("Webhook-Signature") == "" {
		t.Error("it is not signed")
	}
	get := w.runner(t, forward.DryRunnerConfig{URL: w.URL + "/dry?of={event.id}", Method: http.MethodGet, Values: map[string]forward.Value{
		"event.id": func(call *effect.Call) (string, error) { return call.Event.EventID + call.Key, nil },
	}})
	get.DryRun(t.Context(), w.question())
	if last := w.asked[len(w.asked)-1]; last != "GET /dry?of=evt_1 " {
		t.Errorf("asked %q", last)
	}
}

func TestDryRunReadsTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorking(t)
	d := w.runner(t, forward.DryRunnerConfig{URL: w.URL + "/dry", Headers: map[string]string{"X-Token": "canary-token"}})
	for status, want := range map[int]effect.DryOutcome{
		200: effect.DryAccepted, 201: effect.DryAccepted, 204: effect.DryAccepted, 400: effect.DryRefused, 404: effect.DryRefused, 409: effect.DryRefused, 422: effect.DryRefused,
		302: effect.DryUnknown, 307: effect.DryUnknown, 408: effect.DryUnknown, 425: effect.DryUnknown, 429: effect.DryUnknown, 500: effect.DryUnknown, 503: effect.DryUnknown,
	} {
		w.status = status
		got := d.DryRun(t.Context(), w.question())
		if got.Outcome != want || want == effect.DryUnknown && (got.Reason == "" || got.RetryAfter != 7*time.Second) {
			t.Errorf("%d: %+v, want %s", status, got, want)
		}
	}
	w.status, w.answer = 200, "you sent canary-token"
	if got := d.DryRun(t.Context(), w.question()); string(got.Body) != "you sent <header>" {
		t.Errorf("%q", got.Body)
	}
	w.answer = strings.Repeat("x", 1<<20)
	if got := d.DryRun(t.Context(), w.question()); !got.Cut || len(got.Body) != 64<<10 {
		t.Errorf("cut %t, %d bytes", got.Cut, len(got.Body))
	}
	w.Close()
	if got := d.DryRun(t.Context(), w.question()); got.Outcome != effect.DryUnknown || got.Reason == "" {
		t.Errorf("a target that is gone: %+v", got)
	}
	if len(w.worked) > 0 {
		t.Errorf("work was done: %q", w.worked)
	}
}

// What does the work is refused when the configuration is read or, where only the event tells, when it is asked.
func TestDryRunIsNotTheRequestThatDoesTheWork(t *testing.T) {
	t.Parallel()
	w := newWorking(t)
	host := strings.TrimPrefix(w.URL, "http://")
	for name, cfg := range map[string]forward.DryRunnerConfig{
		"the same":               {URL: w.URL + "/pay"},
		"a slash more":           {URL: w.URL + "/pay/"},
		"two slashes":            {URL: w.URL + "//pay"},
		"another case":           {URL: "HTTP://" + strings.ToUpper(host) + "/pay"},
		"an empty query":         {URL: w.URL + "/pay?"},
		"the headers of the one": {URL: w.URL + "/pay", Headers: map[string]string{"x-account": " 7"}},
		"the method of the one":  {URL: w.URL + "/pay", Method: http.MethodPost},
	} {
		cfg.Real = w.real()
		if _, err := forward.NewDryRunner(cfg); !errors.Is(err, forward.ErrSameRequest) && !strings.Contains(err.Error(), "not valid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, cfg := range map[string]forward.DryRunnerConfig{
		"filled in":                       {URL: w.URL + "/{event.type}", Values: map[string]forward.Value{"event.type": func(*effect.Call) (string, error) { return "pay", nil }}},
		"its own body, which is the same": {URL: w.URL + "/pay", Body: func(*effect.Call) ([]byte, error) { return []byte(`{"sum":7}`), nil }},
	} {
		for _, address := range []string{w.URL + "/pay", ""} { // of a target whose address has expressions, and of another one
			question := w.question()
			question.Today.Address = address
			if got := w.runner(t, cfg).DryRun(t.Context(), question); got.Outcome != effect.DryUnknown || got.Cause != forward.ErrSameRequest.Error() {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	// With something of its own, the address may be that of the target.
	for name, cfg := range map[string]forward.DryRunnerConfig{
		"a query": {URL: w.URL + "/pay?dry=1"},
		"a body":  {URL: w.URL + "/pay?dry=1", Body: func(*effect.Call) ([]byte, error) { return []byte(`{"sum":7,"dry":true}`), nil }},
	} {
		if got := w.runner(t, cfg).DryRun(t.Context(), w.question()); got.Outcome != effect.DryAccepted {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if len(w.worked) > 0 {
		t.Errorf("work was done: %q", w.worked)
	}
}

func TestDryRunRefuses(t *testing.T) {
	t.Parallel()
	bank := &forward.Config{URL: "https://bank.example/pay", KeyHeader: "X-Once"}
	for want, cfg := range map[string]forward.DryRunnerConfig{
		"of is missing":                      {URL: "https://bank.example/dry"},
		"want http or https":                 {URL: "ftp://bank.example/dry", Real: bank},
		`method "DELETE"`:                    {URL: "https://bank.example/dry", Method: "DELETE", Real: bank},
		"a GET has no body":                  {URL: "https://bank.example/dry", Method: "GET", Body: func(*effect.Call) ([]byte, error) { return nil, nil }, Real: bank},
		"carries no idempotency key":         {URL: "https://bank.example/dry", Headers: map[string]string{"x-once": "1"}, Real: bank},
		"Idempotency-Key: a dry run carries": {URL: "https://bank.example/dry", Headers: map[string]string{"idempotency-key": "1"}, Real: bank},
		"Oncegate-Attempt is set by the dry": {URL: "https://bank.example/dry", Headers: map[string]string{"oncegate-attempt": "1"}, Real: bank},
		"Webhook-Id is set by the dry":       {URL: "https://bank.example/dry", Headers: map[string]string{"webhook-id": "1"}, Real: bank},
		`header "a b"`:                       {URL: "https://bank.example/dry", Headers: map[string]string{"a b": "c"}, Real: bank},
		". and .. may not be steps":          {URL: "https://bank.example/dry/../pay", Real: bank},
		"url: . and .. may not":              {URL: "https://bank.example/dry/%2e%2E/pay", Real: bank},
		"User-Agent is set by the dry run":   {URL: "https://bank.example/pay", Headers: map[string]string{"user-agent": "dry"}, Real: bank},
		"Content-Type is set by the dry run": {URL: "https://bank.example/pay", Headers: map[string]string{"Content-Type": "application/dry"}, Real: bank},
		"Host is set by the dry run":         {URL: "https://bank.example/pay", Headers: map[string]string{"Host": "dry.example"}, Real: bank},
		"Trailer is set by the dry run":      {URL: "https://bank.example/pay", Headers: map[string]string{"trailer": "dry"}, Real: bank},
		"must not be negative":               {URL: "https://bank.example/dry", Timeout: -1, Real: bank},
		"dry_run is the request that does":   {URL: "https://bank.example:443/pay", Real: bank},
	} {
		if _, err := forward.NewDryRunner(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// The metadata service of a cloud is asked by nobody.
	w := newWorking(t)
	d := w.runner(t, forward.DryRunnerConfig{URL: "http://169.254.169.254/dry", Timeout: time.Second})
	if got := d.DryRun(t.Context(), w.question()); got.Outcome != effect.DryUnknown || got.Reason != "address_refused" {
		t.Errorf("%+v", got)
	}
}

// The museum holds dry runs as one would write them at first. Each does the work in a case in which the right one asks or
// does nothing, and the check has to see it.
func TestADryRunThatWorksIsSeen(t *testing.T) {
	t.Parallel()
	send := func(ctx context.Context, w *working, call *effect.DryCall) {
		sender, err := forward.New(*w.real())
		if err != nil {
			t.Error(err)
			return
		}
		sender.Send(ctx, &effect.Call{Event: call.Event, Route: call.Route, Key: call.ID, Attempt: 1})
	}
	for name, wrong := range map[string]func(ctx context.Context, w *working, d *forward.DryRunner, call *effect.DryCall){
		"falls back to the real request when the dry run fails": func(ctx context.Context, w *working, d *forward.DryRunner, call *effect.DryCall) {
			if d.DryRun(ctx, call).Outcome == effect.DryUnknown {
				send(ctx, w, call)
			}
		},
		"follows where a redirect leads": func(ctx context.Context, w *working, _ *forward.DryRunner, call *effect.DryCall) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/dry", strings.NewReader(string(call.Today.Body)))
			if err != nil {
				t.Error(err)
				return
			}
			reply, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = reply.Body.Close()
			}
		},
		"asks at the address of the target": func(ctx context.Context, w *working, _ *forward.DryRunner, call *effect.DryCall) { send(ctx, w, call) },
	} {
		works := func(do func(ctx context.Context, w *working, d *forward.DryRunner, call *effect.DryCall)) bool {
			w := newWorking(t)
			d := w.runner(t, forward.DryRunnerConfig{URL: w.URL + "/dry"})
			for _, status := range []int{200, 307, 404, 500} {
				w.status = status
				do(t.Context(), w, d, w.question())
			}
			return len(w.worked) > 0
		}
		if !works(wrong) {
			t.Errorf("a dry run that %s was not noticed", name)
		}
		if works(func(ctx context.Context, _ *working, d *forward.DryRunner, call *effect.DryCall) { d.DryRun(ctx, call) }) {
			t.Error("a dry run did work")
		}
	}
}
