// Package tracing makes OpenTelemetry spans of what a process does: of requests to sources and of attempts. It needs only the
// API of OpenTelemetry. The provider of the tracer samples and exports the spans.
//
// The spans of an event are one trace, although other processes carry out its effects, because the event is stored with the
// trace context of its delivery:
//
//	delivery shop                 the request to a source, with the sender's span as its parent
//	├─ gate                       the wait for the commit
//	└─ attempt shop/ship          one for each attempt, in any process
//	   └─ target warehouse        the call of the target, which gets this span's trace context
//
// A span's attributes are names of the configuration, ids, numbers, and reasons and codes of closed sets. No span has
// content, headers, secrets or addresses.
package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs"
)

// scope names the instrumentation in exported spans.
const scope = "github.com/oncegate/oncegate"

// The attributes for which OpenTelemetry has no convention.
const (
	keySource  = attribute.Key("oncegate.source")
	keyEvent   = attribute.Key("oncegate.event") // Oncegate's id; messaging.message.id is the sender's
	keyRoute   = attribute.Key("oncegate.route")
	keyTarget  = attribute.Key("oncegate.target")
	keyEffect  = attribute.Key("oncegate.effect")
	keyAttempt = attribute.Key("oncegate.attempt")
	keyOutcome = attribute.Key("oncegate.outcome")
	keyState   = attribute.Key("oncegate.state")
	keyReason  = attribute.Key("oncegate.reason")
	keyCode    = attribute.Key("oncegate.code")
)

// system is the messaging system that Oncegate is.
var system = semconv.MessagingSystemKey.String("oncegate")

// Tracer makes the spans. Make it with [New].
type Tracer struct {
	tracer trace.Tracer
	kinds  map[string]config.Kind // of the targets, by name
}

var (
	_ receiver.Tracer = (*Tracer)(nil)
	_ jobs.Tracer     = (*Tracer)(nil)
)

// New returns a Tracer whose spans the provider makes. The targets say whether a target's code is a status of HTTP.
func New(provider trace.TracerProvider, version string, targets []*config.Target) *Tracer {
	t := &Tracer{
		tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(semconv.SchemaURL)),
		kinds:  make(map[string]config.Kind, len(targets)),
	}
	for _, target := range targets {
		t.kinds[target.Name] = target.Kind
	}
	return t
}

// header is the header with the trace context. The header tracestate is ignored, because events do not store it.
const header = "traceparent"

// within returns ctx with the span of a trace context as its parent span, unless it is empty.
func within(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: traceparent})
}

// contextOf returns the trace context of the span in ctx.
func contextOf(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// begun returns when something began so long ago.
func begun(ago time.Duration) trace.SpanStartEventOption {
	return trace.WithTimestamp(time.Now().Add(-ago)) //nolint:forbidigo // the clock by which the provider ends spans
}
