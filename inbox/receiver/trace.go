package receiver

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Tracer makes the spans of requests, for distributed traces. Its methods must not block. The receiver itself knows nothing
// about how spans are exported.
type Tracer interface {
	// Delivery begins the span of a request that arrived so long ago. Its parent is the span in ctx, if a program that
	// embeds the receiver has begun one, or else sender, the sender's trace context, which is empty if the sender gave none or
	// the request is not verified.
	Delivery(ctx context.Context, source, sender string, ago time.Duration) DeliverySpan
}

// DeliverySpan is the span of one request. Its methods are called by one goroutine.
type DeliverySpan interface {
	// Traceparent is the span's W3C trace context. It is stored with the events, so that their effects continue the trace.
	Traceparent() string

	// Gate begins the span of the wait for the gate, with so many events. The function that it returns ends it.
	Gate(events int) (end func(error))

	// End ends the span.
	End(end DeliveryEnd)
}

// DeliveryEnd describes a finished request. It has no content, no headers and no address.
type DeliveryEnd struct {
	Method string
	Status int

	// Outcome and Reason have the values of the labels that metrics use.
	Outcome, Reason string

	// Event and EventID are our id and the sender's, as the log shows it. They are zero if the delivery did not have
	// exactly one event, or if it was not recorded.
	Event   inbox.ID
	EventID string
}

// traceparent returns the W3C trace context of a request. It returns "" if there is none, or if it is invalid:
// https://www.w3.org/TR/trace-context/#traceparent-header-field-values.
func traceparent(h http.Header) string {
	given := h["Traceparent"]
	if len(given) != 1 || len(given[0]) != 55 || given[0][:3] != "00-" {
		return ""
	}
	for i := 3; i < 55; i++ {
		c := given[0][i]
		if i == 35 || i == 52 {
			if c != '-' {
				return ""
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	if strings.Trim(given[0][3:35], "0") == "" || strings.Trim(given[0][36:52], "0") == "" {
		return ""
	}
	return given[0]
}

// continueTrace takes over the sender's trace context. Call it only for a verified request: anybody can send a trace
// context, and it decides whether the request is sampled. So the span of a source that proves nothing has no parent.
func (r *Receiver) continueTrace(req *request) {
	sender := traceparent(req.http.Header)
	if r.cfg.Tracer == nil {
		req.traceparent = sender
		return
	}
	if req.source.unproved {
		sender = ""
	}
	r.beginTrace(req, sender)
	req.traceparent = req.span.Traceparent()
}

func (r *Receiver) beginTrace(req *request, sender string) {
	req.span = r.cfg.Tracer.Delivery(req.http.Context(), req.source.name, sender, r.cfg.Now().Sub(req.started))
}

// traceGate begins the span of the gate.
func (req *request) traceGate(events int) (end func(error)) {
	if req.span == nil {
		return func(error) {}
	}
	return req.span.Gate(events)
}

// endTrace ends the span of a request. The span of one that was not verified begins here.
func (r *Receiver) endTrace(req *request, res *result, status int) {
	if r.cfg.Tracer == nil {
		return
	}
	if req.span == nil {
		r.beginTrace(req, "")
	}
	end := DeliveryEnd{Method: req.http.Method, Status: status, Outcome: string(res.outcome), Reason: string(res.reason)}
	if res.single {
		end.Event, end.EventID = res.event, req.loggedID
	}
	req.span.End(end)
}

// withTraceID adds the trace id of a verified request to the attributes of a log line, if it has one.
func (req *request) withTraceID(attrs []slog.Attr) []slog.Attr {
	if id := inbox.TraceID(req.traceparent); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	return attrs
}
