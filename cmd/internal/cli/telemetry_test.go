package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/trials/otlptest"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// The marks of what no span may have.
const (
	bodyMark   = "MARK-OF-THE-BODY"
	headerMark = "MARK-OF-A-HEADER"
	secretMark = "whsec_TUFSSy1PRi1BLVNFQ1JFVC1NQVJLLU9GLUE="
)

const tracedFile = `
targets:
  warehouse: { kind: forward, url: env:TARGET, idempotent: true, retry: { base: 10ms, max: 20ms } }
sources:
  shop:
    provider: standard-webhooks
    secrets: [env:SECRET]
    routes:
      - { name: ship, types: [ship], target: warehouse }
`

// traced is an installation of separate processes, whose target keeps what it got.
type traced struct {
	t       *testing.T
	dir     string
	environ []string

	mu      sync.Mutex
	got     []http.Header
	answers []int // the next ones; then 204
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	w := &traced{t: t, dir: t.TempDir()}
	target := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, r.Header.Clone())
		status := http.StatusNoContent
		if len(w.answers) > 0 {
			status, w.answers = w.answers[0], w.answers[1:]
		}
		rw.WriteHeader(status)
	}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	w.environ = []string{
		"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "PORT=0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"SECRET=" + secretMark, "TARGET=" + target.URL + "/" + headerMark, "GORACE=atexit_sleep_ms=0",
	}
	if err := os.WriteFile(filepath.Join(w.dir, "oncegate.yml"), []byte(tracedFile), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// served is one process.
type served struct {
	cmd   *exec.Cmd
	log   *logtest.Buffer
	ended chan error
}

var servingAt = regexp.MustCompile(`"msg":"serving".*"public":"([^"]+)"`)

// serve starts a process with a role and waits until it serves.
func (w *traced) serve(role string, environ ...string) *served {
	w.t.Helper()
	s := &served{log: new(logtest.Buffer), ended: make(chan error, 1)}
	s.cmd = exec.CommandContext(context.WithoutCancel(w.t.Context()), "oncegate", "serve", "--role", role)
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = w.dir, append(slices.Clone(w.environ), environ...), s.log
	if err := s.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	w.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	inboxtest.Until(w.t, "a process that serves: "+role, func() bool {
		select {
		case err := <-s.ended:
			w.t.Fatalf("it ended: %v\n%s", err, s.log)
		default:
		}
		return strings.Contains(s.log.String(), `"msg":"serving"`)
	})
	return s
}

// stop stops a process and returns how long that took.
func (w *traced) stop(s *served) time.Duration {
	w.t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		w.t.Fatalf("%v\n%s", err, s.log)
	}
	return time.Since(began)
}

// deliver sends an event and returns the status and our id of the event.
func (w *traced) deliver(s *served, id, traceparent string, forged bool) (status int, event string) {
	w.t.Helper()
	at := servingAt.FindStringSubmatch(s.log.String())
	if at == nil {
		w.t.Fatalf("no public address: %s", s.log)
	}
	body := fmt.Sprintf(`{"type":"ship","note":%q}`, bodyMark)
	r := &providers.Request{
		Method: http.MethodPost, URL: "http://" + at[1] + "/in/shop", Header: http.Header{"Content-Type": {"application/json"}, "X-Note": {headerMark}},
		Body: []byte(body), ReceivedAt: time.Now(),
	}
	provider := catalogtest.Load(w.t).Provider("standard-webhooks")
	secret := secretMark
	if forged {
		secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	}
	if err := provider.Sign(r, providers.Secret{Value: []byte(secret)}, id); err != nil {
		w.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(w.t.Context(), r.Method, r.URL+"?token="+headerMark, bytes.NewReader(r.Body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header = r.Header
	if traceparent != "" {
		request.Header.Set("Traceparent", traceparent)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("Oncegate-Event")
}

// requests returns the requests that the target got for an event, once there are so many.
func (w *traced) requests(event string, atLeast int) (found []http.Header) {
	w.t.Helper()
	inboxtest.Until(w.t, "requests at the target", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		found = slices.DeleteFunc(slices.Clone(w.got), func(h http.Header) bool { return h.Get("Oncegate-Event") != event })
		return len(found) >= atLeast
	})
	return found
}

// oncegate runs a command and returns what it prints.
func (w *traced) oncegate(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "oncegate", args...)
	cmd.Dir, cmd.Env = w.dir, w.environ
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("oncegate %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// one returns the only span with a name.
func one(t *testing.T, spans []otlptest.Span, name string) otlptest.Span {
	t.Helper()
	spans = slices.DeleteFunc(slices.Clone(spans), func(s otlptest.Span) bool { return s.Name != name })
	if len(spans) != 1 {
		t.Fatalf("%d spans %q, want 1", len(spans), name)
	}
	return spans[0]
}

const (
	senderTrace  = "0af7651916cd43dd8448eb211c80319c"
	senderSpan   = "b7ad6b7169203331"
	silentTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	forgersTrace = "0123456789abcdef0123456789abcdef"
)

// One process takes an event and another one carries out its effect. Both are one trace, with the sender's span above and the
// span that the target gets below.
func TestTracesAcrossProcesses(t *testing.T) {
	t.Parallel()
	w, collector := newTraced(t), otlptest.New(t)
	otlp := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200"}
	receiving, working := w.serve("receive", otlp...), w.serve("work", append(otlp, "OTEL_SERVICE_NAME=shop-workers", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip")...)

	w.answers = []int{http.StatusInternalServerError}
	_, event := w.deliver(receiving, "evt_traced", "00-"+senderTrace+"-"+senderSpan+"-01", false)
	requests := w.requests(event, 2)
	if status, _ := w.deliver(receiving, "evt_forged", "00-"+forgersTrace+"-"+senderSpan+"-01", true); status != http.StatusUnauthorized {
		t.Errorf("a forged delivery got %d", status)
	}
	_, unsampled := w.deliver(receiving, "evt_silent", "00-"+silentTrace+"-"+senderSpan+"-00", false)
	silent := w.requests(unsampled, 1)[0].Get("Traceparent")
	_, rootless := w.deliver(receiving, "evt_rootless", "", false)
	own := w.requests(rootless, 1)[0].Get("Traceparent")
	inboxtest.Until(t, "metrics of both processes", func() bool {
		return collector.Metric("oncegate_deliveries_total") != nil && collector.Metric("oncegate_attempts_total") != nil
	})
	w.stop(receiving)
	w.stop(working)

	spans := collector.Spans(senderTrace)
	if len(spans) != 6 {
		t.Fatalf("%d spans, want a delivery, a gate, two attempts and two calls of the target: %v", len(spans), spans)
	}
	delivery, gate := one(t, spans, "delivery shop"), one(t, spans, "gate")
	if delivery.ParentID != senderSpan || delivery.Kind != "SERVER" || delivery.Failed || gate.ParentID != delivery.SpanID || gate.Nanoseconds > delivery.Nanoseconds {
		t.Errorf("delivery %v, gate %v", delivery, gate)
	}
	for name, want := range map[string]string{
		"oncegate.source": "shop", "oncegate.event": event, "messaging.message.id": "evt_traced", "oncegate.outcome": "recorded",
		"http.request.method": "POST", "http.route": "/in/:source", "http.response.status_code": "200", "messaging.system": "oncegate",
	} {
		if got := delivery.Attributes[name]; got != want {
			t.Errorf("delivery: %s is %q, want %q", name, got, want)
		}
	}
	if delivery.Resource["service.name"] != "oncegate" || delivery.Resource["service.instance.id"] == "" {
		t.Errorf("resource of the receiver: %v", delivery.Resource)
	}
	for i, status := range []string{"500", "204"} {
		parts := strings.Split(requests[i].Get("Traceparent"), "-")
		if len(parts) != 4 || parts[1] != senderTrace || parts[3] != "01" {
			t.Fatalf("the target got traceparent %q", requests[i].Get("Traceparent"))
		}
		at := slices.IndexFunc(spans, func(s otlptest.Span) bool { return s.SpanID == parts[2] })
		if at < 0 {
			t.Fatalf("no span has the id that the target got: %s", parts[2])
		}
		target := spans[at]
		at = slices.IndexFunc(spans, func(s otlptest.Span) bool { return s.SpanID == target.ParentID })
		if at < 0 {
			t.Fatalf("the span of the target has no parent: %v", target)
		}
		attempt := spans[at]
		if attempt.ParentID != delivery.SpanID || attempt.Kind != "CONSUMER" || attempt.Name != "attempt shop/ship" || attempt.Resource["service.name"] != "shop-workers" ||
			target.Kind != "CLIENT" || target.Name != "target warehouse" || target.Failed != (i == 0) || attempt.Failed != (i == 0) {
			t.Errorf("attempt %v, target %v", attempt, target)
		}
		for name, want := range map[string]string{
			"oncegate.source": "shop", "oncegate.route": "ship", "oncegate.target": "warehouse", "oncegate.event": event, "oncegate.attempt": fmt.Sprint(i + 1),
			"oncegate.outcome": []string{"retry", "done"}[i], "oncegate.state": []string{"retry", "done"}[i], "http.response.status_code": map[int]string{0: "500"}[i],
		} {
			if got := attempt.Attributes[name]; got != want && want != "" {
				t.Errorf("attempt %d: %s is %q, want %q", i+1, name, got, want)
			}
		}
		if got := target.Attributes["http.response.status_code"]; got != status {
			t.Errorf("target %d: status %q, want %q", i+1, got, status)
		}
	}

	// A sender's decision not to sample counts for everything that follows.
	if got := collector.Spans(silentTrace); len(got) > 0 {
		t.Errorf("spans of a trace that is not sampled: %v", got)
	}
	if parts := strings.Split(silent, "-"); len(parts) != 4 || parts[1] != silentTrace || parts[2] == senderSpan || parts[3] != "00" {
		t.Errorf("the target got %q of a trace that is not sampled", silent)
	}
	// Nobody without the secret decides what is traced.
	if got := collector.Spans(forgersTrace); len(got) > 0 {
		t.Errorf("spans in the trace of a forger: %v", got)
	}
	refused := slices.DeleteFunc(collector.Spans(""), func(s otlptest.Span) bool { return s.Attributes["oncegate.outcome"] != "refused" })
	if len(refused) != 1 || refused[0].ParentID != "" || refused[0].Attributes["oncegate.reason"] != "mismatch" || refused[0].Attributes["http.response.status_code"] != "401" {
		t.Errorf("the refused delivery: %v", refused)
	}
	// Without a sender's trace, the delivery begins one.
	if spans := collector.Spans(strings.Split(own+"-", "-")[1]); len(spans) != 4 || one(t, spans, "delivery shop").ParentID != "" {
		t.Errorf("the trace without a sender's span: %v", spans)
	}
	for _, s := range collector.Spans("") {
		for _, mark := range []string{bodyMark, headerMark, secretMark, strings.TrimPrefix(secretMark, "whsec_"), "127.0.0.1", "http://"} {
			if strings.Contains(s.Text, mark) {
				t.Errorf("a span has %s: %s", mark, s.Text)
			}
		}
	}

	// Logs and lists have the trace.
	for what, text := range map[string]string{
		"the receiver's log": receiving.log.String(), "the worker's log": working.log.String(),
		"events show": w.oncegate("events", "show", "shop/evt_traced"), "events show as JSON": w.oncegate("events", "show", "shop/evt_traced", "--output", "json"),
		"events list": w.oncegate("events", "list", "--output", "json"), "effects list": w.oncegate("effects", "list", "--output", "json"),
		"effects show": w.oncegate("effects", "show", "shop/evt_traced"), "effects show as JSON": w.oncegate("effects", "show", "shop/evt_traced", "--output", "json"),
	} {
		if !strings.Contains(text, senderTrace) {
			t.Errorf("%s does not have the trace id: %s", what, text)
		}
	}
}

// Metrics over OTLP are those of /metrics.
func TestMetricsOverOTLP(t *testing.T) {
	t.Parallel()
	w, collector := newTraced(t), otlptest.New(t)
	// Only metrics: OTEL_TRACES_EXPORTER turns the traces off.
	s := w.serve("receive,work", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_TRACES_EXPORTER=none", "OTEL_METRIC_EXPORT_INTERVAL=3600000")
	_, event := w.deliver(s, "evt_1", "00-"+senderTrace+"-"+senderSpan+"-01", false)
	if got := w.requests(event, 1)[0].Get("Traceparent"); got != "00-"+senderTrace+"-"+senderSpan+"-01" {
		t.Errorf("without traces the target got %q", got)
	}
	w.stop(s) // which exports for the last time

	deliveries := collector.Metric("oncegate_deliveries_total")
	sum := deliveries.GetSum()
	if sum == nil || !sum.IsMonotonic {
		t.Fatalf("deliveries: %v", deliveries)
	}
	recorded := 0.0
	for _, point := range sum.DataPoints {
		for _, a := range point.Attributes {
			if a.Key == "outcome" && a.GetValue().GetStringValue() == "recorded" {
				recorded += point.GetAsDouble()
			}
		}
	}
	if recorded != 1 {
		t.Errorf("%v recorded deliveries, want 1: %v", recorded, deliveries)
	}
	if got := collector.Metric("oncegate_gate_seconds").GetHistogram(); got == nil {
		t.Error("the histogram of the gate is missing")
	}
	if got := collector.Spans(""); len(got) > 0 {
		t.Errorf("%d spans", len(got))
	}
}

// A collector that does not answer slows nothing down, and keeps the end of a process waiting for at most 5 s.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(release) })
	s := w.serve("receive,work", "OTEL_EXPORTER_OTLP_ENDPOINT="+hanging.URL, "OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BSP_MAX_QUEUE_SIZE=4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1",
		"OTEL_EXPORTER_OTLP_TIMEOUT=600000", "OTEL_BSP_EXPORT_TIMEOUT=600000", "OTEL_METRIC_EXPORT_INTERVAL=100")
	for i := range 50 { // many more spans than the queue takes
		began := time.Now()
		status, event := w.deliver(s, fmt.Sprint("evt_", i), "", false)
		if took := time.Since(began); status != http.StatusOK || took > 5*time.Second {
			t.Fatalf("delivery %d: %d after %s", i, status, took)
		}
		w.requests(event, 1)
	}
	if took := w.stop(s); took > 20*time.Second {
		t.Errorf("the process took %s to stop", took)
	}
	if !strings.Contains(s.log.String(), "were not exported") {
		t.Errorf("the log does not say that spans are lost: %s", s.log)
	}
}

// A collector that refuses is told of once, and once more when it takes exports again.
func TestCollectorThatRefuses(t *testing.T) {
	t.Parallel()
	w, collector := newTraced(t), otlptest.New(t)
	collector.Refuse(3)
	s := w.serve("receive,work", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=10")
	for i := range 3 {
		before := collector.Requests()
		w.deliver(s, fmt.Sprint("evt_", i), "", false)
		inboxtest.Until(t, "an export", func() bool { return collector.Requests() > before })
	}
	inboxtest.Until(t, "spans", func() bool {
		w.deliver(s, fmt.Sprint("evt_", time.Now().UnixNano()), "", false)
		return len(collector.Spans("")) > 0
	})
	w.stop(s)
	for text, want := range map[string]int{"exports over OTLP fail": 1, "exports over OTLP succeed again": 1, "refused by the test": 1} {
		if got := strings.Count(s.log.String(), text); got != want {
			t.Errorf("%d lines with %q, want %d: %s", got, text, want, s.log)
		}
	}
}

// A mistake in a variable ends the start with one line that names the variable, and no line has a value that may be secret.
func TestTelemetryRefusesMistakes(t *testing.T) {
	t.Parallel()
	w := newTraced(t)
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, `OTEL_EXPORTER_OTLP_PROTOCOL="grpc" is not supported: set http/protobuf, which collectors take at port 4318`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json"}, `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL="http/json" is not supported: set http/protobuf, which collectors take at port 4318`},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318"}, `OTEL_EXPORTER_OTLP_ENDPOINT is no http or https address: set one such as http://localhost:4318`},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://user:" + headerMark + "@%zz"}, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no http or https address: set one such as http://localhost:4318`},
		{[]string{endpoint, "OTEL_TRACES_EXPORTER=console"}, `OTEL_TRACES_EXPORTER="console" is not supported: set otlp, or none to export no traces`},
		{[]string{endpoint, "OTEL_METRICS_EXPORTER=prometheus"}, `OTEL_METRICS_EXPORTER="prometheus" is not supported: set otlp, or none to export no metrics`},
		{[]string{endpoint, "OTEL_TRACES_SAMPLER=sometimes"}, `OTEL_TRACES_SAMPLER="sometimes" is unknown; known are always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio`},
		{[]string{endpoint, "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=10%"}, `OTEL_TRACES_SAMPLER_ARG="10%" is no ratio: set a number from 0 to 1`},
		{[]string{endpoint, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=1.5"}, `OTEL_TRACES_SAMPLER_ARG="1.5" is no ratio: set a number from 0 to 1`},
		{[]string{endpoint, "OTEL_EXPORTER_OTLP_HEADERS=" + headerMark}, `OTEL_EXPORTER_OTLP_HEADERS does not have the form name=value,name=value with values in URL encoding`},
		{[]string{endpoint, "OTEL_RESOURCE_ATTRIBUTES=staging"}, `OTEL_RESOURCE_ATTRIBUTES does not have the form name=value,name=value with values in URL encoding`},
	} {
		cmd := exec.CommandContext(t.Context(), "oncegate", "serve")
		cmd.Dir, cmd.Env = w.dir, append(slices.Clone(w.environ), c.environ...)
		out, _ := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != "oncegate: "+c.want+" [invalid_configuration]" || cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%v: exit %d, %s\nwant %s", c.environ, cmd.ProcessState.ExitCode(), got, c.want)
		}
	}
	// OTEL_SDK_DISABLED turns off everything, mistakes included.
	s := w.serve("receive,work", "OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=nonsense")
	w.stop(s)
	for line := range strings.Lines(s.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not a line of our log: %s", line)
		}
	}
}
