package oncegate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// recordedSpans keeps the spans of a program.
type recordedSpans struct{ *tracetest.SpanRecorder }

// one returns the only span with a name that has ended.
func (r recordedSpans) one(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	inboxtest.Until(t, "the span "+name, func() bool {
		found = slices.DeleteFunc(r.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name })
		return len(found) > 0
	})
	if len(found) != 1 {
		t.Fatalf("%d spans %q, want 1", len(found), name)
	}
	return found[0]
}

func attributeOf(s sdktrace.ReadOnlySpan, name string) string {
	for _, a := range s.Attributes() {
		if a.Key == attribute.Key(name) {
			return a.Value.String()
		}
	}
	return ""
}

// The spans belong to the program: the delivery is below the span of its middleware, and the contexts of its handlers carry the
// span of the call.
func TestTracesAreThePrograms(t *testing.T) {
	t.Parallel()
	spans := recordedSpans{tracetest.NewSpanRecorder()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	type seen struct {
		in      trace.SpanContext
		context string
	}
	inside, outside := make(chan seen, 10), make(chan seen, 10)
	w := open(t, func(cfg *oncegate.Config) {
		cfg.Traces = provider
		retry := oncegate.Retry{Attempts: 2, Base: 10 * time.Millisecond, Max: 50 * time.Millisecond}
		cfg.Sources[0].Routes = []oncegate.Route{
			{Name: "ledger", Retry: retry}, {Name: "notify", Retry: retry}, {Name: "never", Target: "elsewhere", When: "false"}, {Name: "function", Target: "function"},
		}
		cfg.Targets = []oncegate.Target{
			{Name: "elsewhere", URL: "https://192.0.2.1/", Idempotent: new(true)}, {Name: "function", Call: cfg.Schema + ".keep"},
		}
	})
	if _, err := w.pool.Exec(t.Context(), `CREATE FUNCTION keep(event jsonb) RETURNS void LANGUAGE sql AS ''`); err != nil {
		t.Fatal(err)
	}
	attach(t, w.og, "ledger", func(ctx context.Context, _ pgx.Tx, e oncegate.Event) error {
		inside <- seen{trace.SpanContextFromContext(ctx), e.Traceparent}
		return nil
	})
	if err := w.og.HandleOutside("notify", oncegate.OutsideHandler{Deduplicates: true, Handle: func(ctx context.Context, c *oncegate.Call) ([]byte, error) {
		outside <- seen{trace.SpanContextFromContext(ctx), c.Event.Traceparent}
		return nil, oncegate.Permanent(errors.New("no"))
	}}); err != nil {
		t.Fatal(err)
	}
	handler := w.server.Config.Handler
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx, span := provider.Tracer("program").Start(r.Context(), "middleware")
		defer span.End()
		handler.ServeHTTP(rw, r.WithContext(ctx))
	})
	w.run(t)
	w.acknowledged(t, "evt_1")

	above, delivery := spans.one(t, "middleware"), spans.one(t, "delivery stripe")
	if delivery.Parent().SpanID() != above.SpanContext().SpanID() || delivery.SpanContext().TraceID() != above.SpanContext().TraceID() {
		t.Errorf("the delivery is not below the span of the program: %v", delivery.Parent())
	}
	for _, c := range []struct {
		route, outcome, target string
		seen                   chan seen
	}{{"ledger", "done", "target ledger", inside}, {"notify", "dead", "target notify", outside}} {
		attempt, target, got := spans.one(t, "attempt stripe/"+c.route), spans.one(t, c.target), <-c.seen
		if attempt.Parent().SpanID() != delivery.SpanContext().SpanID() || attributeOf(attempt, "oncegate.outcome") != c.outcome || attributeOf(attempt, "oncegate.attempt") != "1" {
			t.Errorf("%s: parent %v, attributes %v", c.route, attempt.Parent(), attempt.Attributes())
		}
		if got.in.SpanID() != target.SpanContext().SpanID() || !strings.Contains(got.context, target.SpanContext().SpanID().String()) || target.Parent().SpanID() != attempt.SpanContext().SpanID() {
			t.Errorf("%s: the handler saw %v and %q, the span is %v", c.route, got.in.SpanID(), got.context, target.SpanContext().SpanID())
		}
	}
	// An effect whose target is not called has a span too, and one that shares its statement with others.
	skipped := spans.one(t, "attempt stripe/never")
	if attributeOf(skipped, "oncegate.state") != "skipped" || skipped.Status().Code == codes.Error || skipped.Parent().SpanID() != delivery.SpanContext().SpanID() {
		t.Errorf("skipped: %v", skipped.Attributes())
	}
	if applied := spans.one(t, "attempt stripe/function"); attributeOf(applied, "oncegate.state") != "done" || applied.Parent().SpanID() != delivery.SpanContext().SpanID() {
		t.Errorf("a function: %v", applied.Attributes())
	}
	w.halt(t)
	for _, s := range spans.Started() {
		if s.EndTime().IsZero() {
			t.Errorf("the span %s never ended", s.Name())
		}
	}
}
