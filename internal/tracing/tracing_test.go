package tracing_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/tracing"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

func newTracer() (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), "test", []*config.Target{
		{Name: "http", Kind: config.KindForward}, {Name: "sql", Kind: config.KindSQL}, {Name: "mail", Kind: config.KindMail},
	}), spans
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

func compare(t *testing.T, s sdktrace.ReadOnlySpan, want map[string]string) {
	t.Helper()
	got := attributesOf(s)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, want %q", s.Name(), name, got[name], value)
		}
	}
}

// A trace context that is empty or unusable begins a trace. The time before the span began belongs to it.
func TestDelivery(t *testing.T) {
	t.Parallel()
	for _, sender := range []string{"", "nonsense"} {
		tracer, spans := newTracer()
		span := tracer.Delivery(t.Context(), "shop", sender, time.Minute)
		span.End(receiver.DeliveryEnd{Method: "A METHOD WITH CONTENT", Status: http.StatusServiceUnavailable, Outcome: "unavailable"})
		s := spans.Ended()[0]
		if s.Parent().IsValid() || s.EndTime().Sub(s.StartTime()) < time.Minute || s.Status().Code != codes.Error {
			t.Errorf("%q: %v from %v to %v: %v", sender, s.Parent(), s.StartTime(), s.EndTime(), s.Status())
		}
		if want := fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.SpanContext().SpanID()); span.Traceparent() != want {
			t.Errorf("traceparent %q, want %q", span.Traceparent(), want)
		}
		compare(t, s, map[string]string{"http.request.method": "_OTHER", "error.type": "unavailable", "oncegate.reason": "", "oncegate.event": ""})
	}
}

// Errors of the gate may quote anything, so that only a word for each is exported.
func TestGate(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		nil: "", gate.ErrOverloaded: "overloaded", inbox.ErrSuspectedRepeat: "suspected_repeat", inbox.ErrNotFollowed: "not_followed",
		errors.New("duplicate key value (id)=(content)"): "unavailable",
	} {
		tracer, spans := newTracer()
		tracer.Delivery(t.Context(), "shop", "", 0).Gate(3)(err)
		s := spans.Ended()[0]
		compare(t, s, map[string]string{"error.type": want, "messaging.batch.message_count": "3"})
		if failed := s.Status().Code == codes.Error; failed != (want != "") || s.Status().Description != "" || len(s.Events()) > 0 {
			t.Errorf("%v: %v, %v", err, s.Status(), s.Events())
		}
	}
}

// The kind of the target says under which name its code is exported.
func TestTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, code, name string }{
		{"http", "503", "http.response.status_code"}, {"http", "rubbish", "oncegate.code"}, {"sql", "23505", "db.response.status_code"}, {"mail", "550 5.1.1", "oncegate.code"},
	} {
		tracer, spans := newTracer()
		attempt := tracer.Attempt(t.Context(), "", 0)
		_, _, end := attempt.Target(t.Context(), c.target)
		end(effect.Result{Outcome: effect.Retry, Reason: "status_5xx", Code: c.code, Excerpt: "CONTENT", Cause: "CONTENT"})
		s := spans.Ended()[0]
		compare(t, s, map[string]string{c.name: c.code, "oncegate.reason": "status_5xx", "error.type": "status_5xx", "oncegate.outcome": "retry"})
		for _, a := range s.Attributes() {
			if a.Value == attribute.StringValue("CONTENT") {
				t.Errorf("%s has content", a.Key)
			}
		}
		if s.Status().Code != codes.Error || s.Status().Description != "" {
			t.Errorf("%s: %v", c.target, s.Status())
		}
	}
}

// An attempt that failed is marked so, and an effect that is at rest without an attempt is not called one.
func TestAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		report jobs.Report
		name   string
		failed bool
	}{
		{jobs.Report{State: inbox.EffectDone, Outcome: inbox.AttemptDone, Attempt: 1}, "attempt shop/ship", false},
		{jobs.Report{State: inbox.EffectSkipped, Outcome: inbox.AttemptSkipped, Attempt: 1}, "attempt shop/ship", false},
		{jobs.Report{State: inbox.EffectRetry, Outcome: inbox.AttemptRetry, Attempt: 2, Reason: reasons.Timeout}, "attempt shop/ship", true},
		{jobs.Report{State: inbox.EffectIndeterminate, Outcome: inbox.AttemptIndeterminate, Attempt: 1}, "attempt shop/ship", true},
		{jobs.Report{State: inbox.EffectDead, Reason: reasons.Deadline}, "effect shop/ship", true},
		{jobs.Report{State: inbox.EffectDuplicate}, "effect shop/ship", false},
	} {
		tracer, spans := newTracer()
		c.report.Source, c.report.Route, c.report.Target = "shop", "ship", "http"
		span := tracer.Attempt(t.Context(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 0)
		span.End(c.report)
		span.Abandon()
		if len(spans.Ended()) != 1 {
			t.Fatalf("%d spans ended", len(spans.Ended()))
		}
		s := spans.Ended()[0]
		if s.Name() != c.name || (s.Status().Code == codes.Error) != c.failed || s.Parent().SpanID().String() != "00f067aa0ba902b7" {
			t.Errorf("%+v: %s, %v, below %v", c.report, s.Name(), s.Status(), s.Parent())
		}
		compare(t, s, map[string]string{"oncegate.state": string(c.report.State), "oncegate.reason": map[bool]string{true: string(c.report.Reason)}[c.failed]})
	}
}
