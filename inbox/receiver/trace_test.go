package receiver_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// spanOf is the trace context of the spans of tracerOf.
const spanOf = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"

// tracerOf is a tracer that records what it is told. The requests of a test are made one after the other.
type tracerOf struct{ told []any }

type deliveryBegun struct{ source, sender string }

type gateEnded struct {
	events int
	err    error
}

func (t *tracerOf) Delivery(_ context.Context, source, sender string, ago time.Duration) receiver.DeliverySpan {
	if ago < 0 {
		sender = "begun in the future"
	}
	t.told = append(t.told, deliveryBegun{source, sender})
	return t
}

func (t *tracerOf) Traceparent() string { return spanOf }

func (t *tracerOf) Gate(events int) func(error) {
	return func(err error) { t.told = append(t.told, gateEnded{events, err}) }
}

func (t *tracerOf) End(end receiver.DeliveryEnd) { t.told = append(t.told, end) }

// The sender's trace continues only if the sender is proved, because its trace context says whether the trace is kept. What is
// stored is the span's context.
func TestTraces(t *testing.T) {
	t.Parallel()
	const sender = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" // W3C Trace Context, 3.2
	failure := errors.New("no database")
	for _, test := range []struct {
		name   string
		answer func(context.Context, *inbox.Admission) (inbox.Receipt, error)
		c      answerCase
		want   []any
	}{
		{"Recorded", nil, answerCase{body: `{"id":"a"}`}, []any{
			deliveryBegun{"shop", sender}, gateEnded{1, nil},
			receiver.DeliveryEnd{Method: "POST", Status: 200, Outcome: "recorded", Event: recorded, EventID: "a"},
		}},
		{"Batch", nil, answerCase{body: `[{"id":"a"},{"id":"b"}]`}, []any{
			deliveryBegun{"shop", sender}, gateEnded{2, nil}, receiver.DeliveryEnd{Method: "POST", Status: 200, Outcome: "recorded"},
		}},
		{"Overloaded", func(context.Context, *inbox.Admission) (inbox.Receipt, error) {
			return inbox.Receipt{}, gate.ErrOverloaded
		}, answerCase{body: `{"id":"a"}`}, []any{
			deliveryBegun{"shop", sender}, gateEnded{1, gate.ErrOverloaded}, receiver.DeliveryEnd{Method: "POST", Status: 503, Outcome: "overloaded"},
		}},
		{"Unavailable", func(context.Context, *inbox.Admission) (inbox.Receipt, error) { return inbox.Receipt{}, failure }, answerCase{body: `{"id":"a"}`}, []any{
			deliveryBegun{"shop", sender}, gateEnded{1, failure}, receiver.DeliveryEnd{Method: "POST", Status: 503, Outcome: "unavailable"},
		}},
		{"Forged", nil, answerCase{body: `{"id":"a"}`, header: map[string]string{"X-Signature": "00"}}, []any{
			deliveryBegun{"shop", ""}, receiver.DeliveryEnd{Method: "POST", Status: 401, Outcome: "refused", Reason: "mismatch"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g, tracer := &fakeGate{answer: test.answer}, &tracerOf{}
			cfg := config(g, newProvider())
			cfg.Tracer = tracer
			req := newRequest(t, &test.c)
			req.Header.Set("Traceparent", sender)
			newReceiver(t, cfg).ServeHTTP(httptest.NewRecorder(), req)
			if !slices.Equal(tracer.told, test.want) {
				t.Errorf("told\n%+v\nwant\n%+v", tracer.told, test.want)
			}
			for _, a := range g.admissions() {
				if a.Traceparent != spanOf {
					t.Errorf("stored %q, want the span's own", a.Traceparent)
				}
			}
		})
	}
}

// Anybody can deliver to a source that proves nothing, so its senders do not decide what is traced.
func TestTracesOfUnprovedSources(t *testing.T) {
	t.Parallel()
	tracer := &tracerOf{}
	cfg := config(&fakeGate{}, newProvider())
	cfg.Tracer = tracer
	cfg.Sources["shop"].Provider = unproved{newProvider()}
	req := newRequest(t, &answerCase{body: `{"id":"a"}`})
	req.Header.Set("Traceparent", spanOf)
	newReceiver(t, cfg).ServeHTTP(httptest.NewRecorder(), req)
	if want := (deliveryBegun{"shop", ""}); len(tracer.told) == 0 || tracer.told[0] != want {
		t.Errorf("told %+v, want %+v first", tracer.told, want)
	}
}

// A delivery that is not traced allocates nothing for traces.
//
//nolint:paralleltest // nothing else may allocate meanwhile
func TestNoTracesCostNothing(t *testing.T) {
	r, err := receiver.New(config(&fakeGate{}, newProvider()))
	if err != nil {
		t.Fatal(err)
	}
	if allocations := testing.AllocsPerRun(100, receiver.TraceNothing(r, "shop")); allocations != 0 {
		t.Errorf("%v allocations for a delivery that is not traced", allocations)
	}
}

// https://www.w3.org/TR/trace-context/#trace-id and #parent-id: only zeros are invalid.
func TestTraceparentOfZeros(t *testing.T) {
	t.Parallel()
	g := &fakeGate{}
	handler := newReceiver(t, config(g, newProvider()))
	zeros := strings.Repeat("0", 32)
	for _, given := range []string{"00-" + zeros + "-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-" + zeros[:16] + "-01"} {
		req := newRequest(t, &answerCase{body: `{"id":"a"}`})
		req.Header.Set("Traceparent", given)
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
	for _, a := range g.admissions() {
		if a.Traceparent != "" {
			t.Errorf("stored %q", a.Traceparent)
		}
	}
}
