package tracing

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// attemptSpan is the span of an attempt.
type attemptSpan struct {
	tracer *Tracer
	ctx    context.Context //nolint:containedctx // it is the parent of the target's span
	span   trace.Span
}

// Attempt implements [jobs.Tracer].
func (t *Tracer) Attempt(ctx context.Context, traceparent string, ago time.Duration) jobs.AttemptSpan {
	ctx, span := t.tracer.Start(within(ctx, traceparent), "attempt", begun(ago), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(system, semconv.MessagingOperationTypeProcess))
	return &attemptSpan{tracer: t, ctx: ctx, span: span}
}

// Target implements [jobs.AttemptSpan].
func (a *attemptSpan) Target(ctx context.Context, target string) (context.Context, string, func(effect.Result)) {
	ctx, span := a.tracer.tracer.Start(trace.ContextWithSpan(ctx, a.span), "target "+target, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(keyTarget.String(target)))
	return ctx, contextOf(ctx), func(result effect.Result) {
		if span.IsRecording() {
			span.SetAttributes(keyOutcome.String(string(result.Outcome)))
			span.SetAttributes(a.tracer.answer(target, result.Code)...)
			fail(span, result.Outcome != effect.Done, result.Reason)
		}
		span.End()
	}
}

// answer returns the attributes of a target's code, for which the kind of the target has a convention or not.
func (t *Tracer) answer(target, code string) []attribute.KeyValue {
	status, err := strconv.Atoi(code)
	switch kind := t.kinds[target]; {
	case code == "":
		return nil
	case (kind == config.KindForward || kind == config.KindDev) && err == nil:
		return []attribute.KeyValue{semconv.HTTPResponseStatusCode(status)}
	case kind == config.KindSQL || kind == config.KindSuppress:
		return []attribute.KeyValue{semconv.DBSystemNamePostgreSQL, semconv.DBResponseStatusCode(code)}
	}
	return []attribute.KeyValue{keyCode.String(code)}
}

// fail marks the span of something that failed for a reason.
func fail(span trace.Span, failed bool, reason string) {
	if !failed {
		return
	}
	if reason != "" {
		span.SetAttributes(keyReason.String(reason), semconv.ErrorTypeKey.String(reason))
	}
	span.SetStatus(codes.Error, "")
}

// End implements [jobs.AttemptSpan].
func (a *attemptSpan) End(r jobs.Report) {
	if a.span.IsRecording() {
		name := "attempt"
		if r.Outcome == "" {
			name = "effect"
		}
		a.span.SetName(name + " " + r.Source + "/" + r.Route)
		a.span.SetAttributes(
			semconv.MessagingOperationName(name), semconv.MessagingDestinationName(r.Source+"/"+r.Route),
			keySource.String(r.Source), keyRoute.String(r.Route), keyTarget.String(r.Target),
			keyEvent.String(r.Event.String()), keyEffect.String(r.Effect.String()), keyState.String(string(r.State)),
		)
		if r.Outcome != "" {
			a.span.SetAttributes(keyAttempt.Int(r.Attempt), keyOutcome.String(string(r.Outcome)))
		}
		a.span.SetAttributes(a.tracer.answer(r.Target, r.Code)...)
		fail(a.span, r.State.AtRest() || r.State.Waiting(), string(r.Reason))
	}
	a.span.End()
}

// Abandon implements [jobs.AttemptSpan].
func (a *attemptSpan) Abandon() { a.span.End() }
