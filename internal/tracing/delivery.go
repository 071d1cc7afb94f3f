package tracing

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// route is the pattern of the addresses that senders call.
const route = "/in/:source"

// deliverySpan is the span of a request to a source.
type deliverySpan struct {
	tracer *Tracer
	ctx    context.Context //nolint:containedctx // it is the parent of the gate's span
	span   trace.Span
}

// Delivery implements [receiver.Tracer].
func (t *Tracer) Delivery(ctx context.Context, source, sender string, ago time.Duration) receiver.DeliverySpan {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = within(ctx, sender)
	}
	ctx, span := t.tracer.Start(ctx, "delivery "+source, begun(ago), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		keySource.String(source), system, semconv.MessagingOperationName("delivery"), semconv.MessagingOperationTypeReceive,
		semconv.MessagingDestinationName(source), semconv.HTTPRoute(route),
	))
	return &deliverySpan{tracer: t, ctx: ctx, span: span}
}

// Traceparent implements [receiver.DeliverySpan].
func (d *deliverySpan) Traceparent() string { return contextOf(d.ctx) }

// Gate implements [receiver.DeliverySpan].
func (d *deliverySpan) Gate(events int) func(error) {
	_, span := d.tracer.tracer.Start(d.ctx, "gate", trace.WithAttributes(semconv.MessagingBatchMessageCount(events)))
	return func(err error) {
		if why := unrecorded(err); why != "" {
			span.SetAttributes(semconv.ErrorTypeKey.String(why))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// unrecorded returns a word for why the gate did not record a delivery, or "". An error's own text may have more than
// a span may show.
func unrecorded(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, gate.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, inbox.ErrSuspectedRepeat):
		return "suspected_repeat"
	case errors.Is(err, inbox.ErrNotFollowed):
		return "not_followed"
	}
	return "unavailable"
}

// End implements [receiver.DeliverySpan].
func (d *deliverySpan) End(end receiver.DeliveryEnd) {
	if d.span.IsRecording() {
		d.span.SetAttributes(semconv.HTTPRequestMethodKey.String(method(end.Method)), semconv.HTTPResponseStatusCode(end.Status), keyOutcome.String(end.Outcome))
		if end.Reason != "" {
			d.span.SetAttributes(keyReason.String(end.Reason))
		}
		if !end.Event.IsZero() {
			d.span.SetAttributes(keyEvent.String(end.Event.String()), semconv.MessagingMessageID(end.EventID))
		}
		if end.Status >= http.StatusInternalServerError {
			d.span.SetAttributes(semconv.ErrorTypeKey.String(end.Outcome))
			d.span.SetStatus(codes.Error, "")
		}
	}
	d.span.End()
}

// method returns a known method, or what OpenTelemetry has in place of others, because a sender may invent one.
func method(given string) string {
	switch given {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return given
	}
	return "_OTHER"
}
