package jobs

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/jobs/effect"
)

// Tracer makes the spans of attempts, for distributed traces. Its methods must not block. The client itself knows nothing
// about how spans are exported.
type Tracer interface {
	// Attempt begins the span of an attempt that began so long ago. Its parent is the stored trace context of the event. If
	// that is empty, a trace begins.
	Attempt(ctx context.Context, traceparent string, ago time.Duration) AttemptSpan
}

// AttemptSpan is the span of one attempt. Its methods are called by one goroutine.
type AttemptSpan interface {
	// Target begins the span of the call of the target. The context that it returns carries the span. traceparent is its W3C
	// trace context, which the target gets. The function that it returns ends it.
	Target(ctx context.Context, target string) (_ context.Context, traceparent string, end func(effect.Result))

	// End ends the span with the attempt's report.
	End(r Report)

	// Abandon ends the span of an attempt whose end another process decides. It does nothing after End.
	Abandon()
}

// beginTrace begins the span of an attempt. It returns nil if nothing is traced.
func (a attempt) beginTrace(ctx context.Context) AttemptSpan {
	if a.cfg.Tracer == nil {
		return nil
	}
	return a.cfg.Tracer.Attempt(ctx, a.claim.Event.Traceparent, a.elapsed())
}

// atTarget calls the target with do, in a span if the attempt has one. The target then gets the trace context of that
// span; without a span it gets the stored one.
func (a attempt) atTarget(ctx context.Context, call *effect.Call, do func(context.Context) effect.Result) effect.Result {
	if a.span == nil {
		return do(ctx)
	}
	ctx, traceparent, end := a.span.Target(ctx, a.route.Target)
	call.Event.Traceparent = traceparent
	result := do(ctx)
	end(result)
	return result
}

// endTrace ends the span of an attempt. If the effect came to rest without a call of the target, or as a statement that it
// shared with other effects, its span begins here. An effect that was only put off has none.
func (a attempt) endTrace(ctx context.Context, r Report) {
	if a.cfg.Tracer == nil {
		return
	}
	if a.span == nil {
		if r.Outcome == "" && !r.State.AtRest() && !r.State.Settled() {
			return
		}
		a.span = a.beginTrace(ctx)
	}
	a.span.End(r)
}

// abandonTrace ends the span of an attempt that has not reported its end.
func (a attempt) abandonTrace() {
	if a.span != nil {
		a.span.Abandon()
	}
}
