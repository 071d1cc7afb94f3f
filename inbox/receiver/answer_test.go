package receiver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/providers"
)

// answerCase is one line of the table of answers: what is sent, what the gate
// says, and what must come back.
type answerCase struct {
	name   string
	method string            // POST
	path   string            // /in/shop
	body   string            // an event
	header map[string]string // a valid signature and application/json; "-" takes one away
	length int64             // of the body
	gate   *fakeGate         // records
	adjust func(*receiver.Config, *provider)

	status  int
	answer  string            // exact body
	want    map[string]string // headers
	outcome string            // counted
	reason  string            // counted
	kept    string            // cause of the refusal kept: the reason
	whole   bool
	reaches bool // the gate
}

const event = `{"id":"evt_1","amount":1}`

func strict(cfg *receiver.Config, p *provider) {
	p.operation = true
	cfg.Sources["shop"].Inbox.Strict = true
}

func doubting(cfg *receiver.Config, _ *provider) {
	cfg.Doubted = func(context.Context) bool { return true }
}

func answerCases() []answerCase {
	ack := func(status string) string { return `{"event":"` + recordedID + `","status":"` + status + `"}` }
	forged := map[string]string{"X-Signature": sign(event + " ")}
	retry := func(seconds string) map[string]string { return map[string]string{"Retry-After": seconds} }
	panicking := &fakeGate{answer: func(context.Context, *inbox.Admission) (inbox.Receipt, error) { panic("gate") }}
	cancelled := failing(fmt.Errorf("waiting: %w", context.Canceled))
	unusable := "\x00 not JSON \xff"
	batch := `[{"id":"a"},{"id":"b"}]`
	big := `{"id":"` + strings.Repeat("x", maxBody) + `"}`
	return []answerCase{
		// What is verified.
		{name: "recorded", status: 200, answer: ack("recorded"), want: map[string]string{"Oncegate-Event": recordedID}, outcome: "recorded", reaches: true},
		{name: "duplicate", gate: answering(inbox.Duplicate), status: 200, answer: ack("duplicate"), want: map[string]string{"Oncegate-Event": recordedID}, outcome: "duplicate", reaches: true},
		{name: "conflict of a provider", gate: answering(inbox.Conflict), status: 200, answer: ack("conflict"), want: map[string]string{"Oncegate-Event": recordedID}, outcome: "conflict", reaches: true},
		{name: "conflict of an operation", gate: answering(inbox.Conflict), adjust: strict, status: 409, outcome: "conflict", reaches: true,
			answer: problemText("payload_differs", 409, `,"event":"`+recordedID+`","event_id":"evt_1","operation":"test","intent_hash":"c0ffee","paths":["amount","to.name"]`),
			want:   map[string]string{"Content-Type": "application/problem+json", "Oncegate-Event": recordedID}},
		{name: "signed but not JSON", body: unusable, status: 200, answer: ack("recorded"), outcome: "unusable", reaches: true},
		{name: "signed without an id", body: `{}`, status: 200, answer: ack("recorded"), outcome: "unusable", reaches: true},
		{name: "signed but unusable, again", body: unusable, gate: answering(inbox.Duplicate), status: 200, answer: ack("duplicate"), outcome: "duplicate", reaches: true},
		{name: "exact bytes", body: "{ \"id\" :\t\"evt_1\",\n\"id\":\"evt_2\", \"n\": 1e400000 } ", status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "batch", body: batch, status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "batch, part recorded", body: batch, gate: answering(inbox.Duplicate, inbox.Recorded), status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "batch, part in conflict", body: batch, gate: answering(inbox.Recorded, inbox.Conflict), status: 200, answer: ack("conflict"), outcome: "conflict", reaches: true},
		{name: "batch of duplicates", body: batch, gate: answering(inbox.Duplicate), status: 200, answer: ack("duplicate"), outcome: "duplicate", reaches: true},
		{name: "empty batch", body: `[]`, status: 200, answer: `{"event":"","status":"empty"}`, want: map[string]string{"Oncegate-Event": ""}, outcome: "empty"},
		{name: "content type with parameters", header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "no content type", header: map[string]string{"Content-Type": "-"}, status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "identity encoding", header: map[string]string{"Content-Encoding": "identity"}, status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "handshake", method: "GET", path: "/in/shop?challenge=42", status: 200, answer: "42", want: map[string]string{"Content-Type": "text/plain"}, outcome: "handshake"},
		{name: "body at the limit", body: strings.Repeat("x", maxBody), status: 200, answer: ack("recorded"), outcome: "unusable", reaches: true},

		// What is not.
		{name: "forged", header: forged, status: 401, outcome: "refused", reason: "mismatch", whole: true},
		{name: "unsigned", header: map[string]string{"X-Signature": "-"}, status: 401, outcome: "refused", reason: "unsigned"},
		{name: "malformed signature", header: map[string]string{"X-Signature": "zz"}, status: 401, outcome: "refused", reason: "malformed"},
		{name: "stale", header: map[string]string{"X-Age": "301"}, status: 401, outcome: "refused", reason: "stale"},
		// A wrong clock is our fault, and nobody else's deliveries suffer by whoever sends stale ones.
		{name: "stale by a clock in doubt", adjust: doubting, header: map[string]string{"X-Age": "301"}, status: 503, want: retry("2"), outcome: "clock_doubted"},
		{name: "early by a clock in doubt", adjust: doubting, header: map[string]string{"X-Age": "-301"}, status: 503, want: retry("2"), outcome: "clock_doubted"},
		{name: "in time by a clock in doubt", adjust: doubting, status: 200, answer: ack("recorded"), outcome: "recorded", reaches: true},
		{name: "forged and stale by a clock in doubt", adjust: doubting, header: map[string]string{"X-Age": "301", "X-Signature": sign(event + " ")}, status: 401, outcome: "refused", reason: "mismatch", whole: true},
		// Nobody knows yet whose fault it is, so the sender is to come again.
		{name: "unknown key", header: map[string]string{"X-Provoke": "unknown key"}, status: 503, want: retry("42"), outcome: "key_awaited"},
		{name: "unknown key and time", header: map[string]string{"X-Provoke": "unknown key and time"}, status: 503, want: retry("5"), outcome: "key_awaited"},
		{name: "early", header: map[string]string{"X-Age": "-301"}, status: 401, outcome: "refused", reason: "early"},
		{name: "forged handshake", method: "GET", path: "/in/shop?token=wrong&challenge=1", status: 401, outcome: "refused", reason: "mismatch", whole: true},
		{name: "unidentified operation", header: map[string]string{"X-Provoke": "unidentified"}, adjust: strict, status: 400, outcome: "refused", reason: "unidentified",
			answer: problemText("unidentified", 400, ""), want: map[string]string{"Content-Type": "application/problem+json"}},
		{name: "unidentified, but no operation", header: map[string]string{"X-Provoke": "unidentified"}, status: 401, outcome: "refused", reason: "unidentified"},
		{name: "unknown source", path: "/in/nobody", status: 404, reason: "unknown_source", kept: "-"},
		{name: "unknown path", path: "/elsewhere", status: 404},
		{name: "method", method: "PUT", status: 405, want: map[string]string{"Allow": "GET, POST"}, outcome: "refused", reason: "method"},
		{name: "GET that is no handshake", method: "GET", status: 405, want: map[string]string{"Allow": "GET, POST"}, outcome: "refused", reason: "method"},
		{name: "gzip", header: map[string]string{"Content-Encoding": "gzip"}, status: 415, outcome: "refused", reason: "content_encoding"},
		{name: "brotli in capitals", header: map[string]string{"Content-Encoding": "BR"}, status: 415, outcome: "refused", reason: "content_encoding"},
		{name: "content type", header: map[string]string{"Content-Type": "text/xml"}, status: 415, outcome: "refused", reason: "content_type"},
		{name: "content type that cannot be read", header: map[string]string{"Content-Type": "a/b/c;"}, status: 415, outcome: "refused", reason: "content_type"},
		{name: "oversize, declared", body: big, status: 413, outcome: "refused", reason: "too_large"},
		{name: "oversize, undeclared", body: big, length: -1, status: 413, outcome: "refused", reason: "too_large"},
		{name: "truncated", length: int64(len(event)) + 10, status: 408, outcome: "refused", reason: "truncated"},
		{name: "over the quota", adjust: func(cfg *receiver.Config, _ *provider) {
			cfg.Sources["shop"].Deliveries = receiver.Quota{N: 1, Per: 10 * time.Second}
		}, // the first passed before
			status: 429, want: retry("10"), outcome: "refused", reason: "quota"},
		{name: "over the tenant's quota", adjust: func(cfg *receiver.Config, _ *provider) {
			cfg.TenantDeliveries = map[string]receiver.Quota{"acme": {N: 1, Per: 20 * time.Second}}
			cfg.Sources["shop"].Inbox.Tenant, cfg.Sources["shop"].Deliveries = "acme", receiver.Quota{N: 1, Per: 10 * time.Second}
		}, status: 429, want: retry("20"), outcome: "refused", reason: "quota"},

		// Ours.
		{name: "overloaded gate", gate: failing(fmt.Errorf("accepting: %w", gate.ErrOverloaded)), status: 503, want: retry("1"), outcome: "overloaded", reaches: true},
		{name: "unavailable gate", gate: failing(gate.ErrUnavailable), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "unknown error of the gate", gate: failing(errors.New("?")), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate was cancelled", gate: cancelled, status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate says a refusal", gate: failing(&providers.Refusal{Reason: providers.ReasonMismatch}), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate panics", gate: panicking, status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate answers for no event", gate: answeringFor(-1), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate answers for two events of one", gate: answeringFor(1), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate answers for one event of two", body: batch, gate: answeringFor(-1), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate answers for three events of two", body: batch, gate: answeringFor(1), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the gate answers what nobody knows", gate: answering("perhaps"), status: 503, want: retry("5"), outcome: "unavailable", reaches: true},
		{name: "the provider panics", header: map[string]string{"X-Provoke": "panic"}, status: 503, want: retry("5"), outcome: "unavailable"},
		{name: "the provider has an error", header: map[string]string{"X-Provoke": "error"}, status: 503, want: retry("5"), outcome: "unavailable"},
		{name: "the provider says nothing", header: map[string]string{"X-Provoke": "nothing"}, status: 503, want: retry("5"), outcome: "unavailable"},
	}
}

// faults collects what a suite finds wrong, so that it can also be run on what
// is known to be wrong.
type faults interface {
	Helper()
	Errorf(format string, args ...any)
}

// builder makes the handler under test; the mutants make a wrong one.
type builder func(tb testing.TB, cfg receiver.Config) http.Handler

func checkAnswer(tb testing.TB, f faults, build builder, test answerCase) {
	tb.Helper()
	f.Helper()
	p, g := newProvider(), test.gate
	if g == nil {
		g = &fakeGate{}
	}
	refusals := &keeper{}
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := config(g, p)
	cfg.Metrics, cfg.Refusals = metrics, refusals
	if test.adjust != nil {
		test.adjust(&cfg, p)
	}
	handler := build(tb, cfg)
	if test.body == "" && test.method != "GET" {
		test.body = event
	}
	send := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, newRequest(tb, &test))
		return answer
	}
	if test.reason == "quota" {
		send()
		g.forget()
	}
	answer := send()

	if answer.Code != test.status {
		f.Errorf("%s: status %d, want %d", test.name, answer.Code, test.status)
	}
	if answer.Body.String() != test.answer {
		f.Errorf("%s: body %q, want %q", test.name, answer.Body, test.answer)
	}
	for name, want := range test.want {
		if got := answer.Header().Get(name); got != want {
			f.Errorf("%s: header %s is %q, want %q", test.name, name, got, want)
		}
	}
	if seen := g.admissions(); test.reaches != (len(seen) > 0) {
		f.Errorf("%s: the gate saw %d admissions", test.name, len(seen))
	} else if test.reaches && string(seen[0].Body) != test.body {
		f.Errorf("%s: the gate saw the body %q, sent was %q", test.name, seen[0].Body, test.body)
	}
	if test.outcome != "" && counted(tb, registry, "oncegate_deliveries_total", test.outcome) == 0 {
		f.Errorf("%s: outcome %s is not counted", test.name, test.outcome)
	}
	if test.reason != "" && counted(tb, registry, "oncegate_refusals_total", test.reason) == 0 {
		f.Errorf("%s: reason %s is not counted", test.name, test.reason)
	}
	if test.kept == "" {
		test.kept = test.reason
	}
	kept := refusals.refusals()
	if (test.kept != "" && test.kept != "-") != (len(kept) == 1) {
		f.Errorf("%s: %d refusals were kept", test.name, len(kept))
	} else if len(kept) == 1 {
		if kept[0].Cause != test.kept || kept[0].Whole != test.whole || kept[0].SourceID != 7 {
			f.Errorf("%s: kept %+v", test.name, kept[0])
		}
		if test.whole && string(kept[0].Body) != test.body {
			f.Errorf("%s: kept the body %q", test.name, kept[0].Body)
		}
	}
}

func newRequest(tb testing.TB, test *answerCase) *http.Request {
	tb.Helper()
	method, path := test.method, test.path
	if method == "" {
		method = http.MethodPost
	}
	if path == "" {
		path = "/in/shop"
	}
	var body io.Reader
	if test.body != "" {
		body = strings.NewReader(test.body)
	}
	req := httptest.NewRequestWithContext(tb.Context(), method, path, body)
	if test.body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Signature", sign(test.body))
	}
	for name, value := range test.header {
		if value == "-" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	if test.length != 0 {
		req.ContentLength = test.length
	}
	return req
}

// counted is how often a series with the label value was counted.
func counted(tb testing.TB, registry *prometheus.Registry, name, value string) float64 {
	tb.Helper()
	families, err := registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetValue() == value {
					sum += series.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

func build(tb testing.TB, cfg receiver.Config) http.Handler {
	tb.Helper()
	return newReceiver(tb, cfg)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range answerCases() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkAnswer(t, t, build, test)
		})
	}
}

// The metrics' names and labels are part of what people see.
func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(
		receiver.NewGateCollector(func() gate.Stats { return gate.Stats{Groups: 5, QueuedBytes: 9} }),
		receiver.NewRefusalsCollector(func() refusal.Stats { return refusal.Stats{Written: 4} }),
	)
	cfg := config(&fakeGate{}, newProvider())
	cfg.Metrics = metrics
	open := *cfg.Sources["shop"]
	open.Provider = unproved{newProvider()}
	cfg.Sources["open"] = &open
	handler := newReceiver(t, cfg)
	handler.ServeHTTP(httptest.NewRecorder(), newRequest(t, &answerCase{body: event}))
	scraped := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scraped, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	for _, line := range []string{
		`oncegate_gate_groups_total 5`,
		`oncegate_gate_queued_bytes 9`,
		`oncegate_refusals_written_total 4`,
		`oncegate_secret_matches_total{secret="old",source="shop"} 1`,
		`oncegate_deliveries_in_flight 0`,
		`oncegate_body_in_flight_bytes 0`,
		`oncegate_deliveries_total{outcome="recorded",source="shop",tenant=""} 1`,
		`oncegate_delivery_seconds_count{source="shop"} 1`,
		`oncegate_body_bytes_sum{source="shop"} 25`,
		`oncegate_unproved_sources{source="open"} 1`,
	} {
		if !strings.Contains(scraped.Body.String(), "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, scraped.Body)
		}
	}
}

// problemText is a problem document, whose title and advice are the table's.
func problemText(code receiver.Code, status int, more string) string {
	for _, m := range receiver.Codes() {
		if m.Code == code {
			return fmt.Sprintf(`{"type":"https://github.com/oncegate/oncegate/blob/main/docs/reference/errors.md#%s","title":%q,"status":%d,"code":%q,"retriable":false%s,"next":%q,"advice":%q}`,
				code, m.Title, status, code, more, m.Next, m.Advice)
		}
	}
	return ""
}
