// Package publish sends events to message brokers: Kafka, NATS JetStream and RabbitMQ. [New] makes a [Sender] for one
// topic, stream or exchange. Each message is a CloudEvent 1.0 in binary mode, whose body is the event as received.
package publish

import (
	"context"
	"errors"
	"time"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/jobs/effect"
)

// Config configures a [Sender]. Broker and Place are required.
type Config struct {
	Broker broker.Config

	// Place is the topic of Kafka, the subject of NATS or the routing key of RabbitMQ. A subject and a routing key may
	// contain expressions in braces: "orders.{body.country}".
	Place string

	// Values computes the expressions in Place, by their texts. Each result becomes a part of one token.
	Values map[string]Value

	// Within is the stream of NATS that must take the message, or the exchange of RabbitMQ. Empty is any stream, and the
	// default exchange.
	Within string

	// Idempotent means that consumers recognise a message by its id, so it is published again if its acknowledgement was
	// lost.
	Idempotent bool
}

// Sender publishes events. A message counts as published only when the broker has acknowledged it.
type Sender struct {
	cfg       Config
	place     *template
	publisher broker.Publisher
}

var (
	_ effect.Sender    = (*Sender)(nil)
	_ effect.Addresser = (*Sender)(nil)
	_ effect.Previewer = (*Sender)(nil)
)

// New makes a Sender, or reports everything that is wrong with cfg. It does not connect.
func New(cfg Config) (*Sender, error) {
	place, perr := newTemplate(&cfg)
	publisher, err := broker.NewPublisher(cfg.Broker, cfg.Within)
	if err := errors.Join(err, perr); err != nil {
		return nil, err
	}
	return &Sender{cfg: cfg, place: place, publisher: publisher}, nil
}

// Render implements [effect.Sender]. The body is published as received, so nothing is stored.
func (s *Sender) Render(*effect.Call) ([]byte, error) { return nil, nil }

// Idempotent implements [effect.Sender].
func (s *Sender) Idempotent() bool { return s.cfg.Idempotent }

// Close ends the connections to the broker.
func (s *Sender) Close() { s.publisher.Close() }

// Check returns what the broker's configuration does to the messages. It publishes nothing. A place with expressions
// cannot be checked, so only the connection is.
func (s *Sender) Check(ctx context.Context) ([]broker.Fault, error) {
	if len(s.place.expressions) > 0 {
		return s.publisher.Check(ctx, "")
	}
	return s.publisher.Check(ctx, s.cfg.Place)
}

// Send implements [effect.Sender].
func (s *Sender) Send(ctx context.Context, call *effect.Call) effect.Result {
	m, err := s.message(call)
	if err != nil {
		return effect.Result{Outcome: effect.Dead, Reason: reasons.Render, Cause: err.Error()}
	}
	known, err := s.publisher.Publish(ctx, m)
	if err != nil {
		return failure(ctx, err)
	}
	return effect.Result{Outcome: effect.Done, Recognised: known}
}

// failure classifies a message that was not acknowledged.
func failure(ctx context.Context, err error) effect.Result {
	r := effect.Result{Outcome: effect.Retry, Reason: reasons.Connection, Cause: effect.SafeError(err)}
	if said, ok := errors.AsType[*broker.Error](err); ok {
		r.Code = pgtext.Clean(said.Code, effect.MaxCause)
		if said.Uncertain {
			r.Outcome = effect.Unknown
		}
	}
	switch {
	case errors.Is(err, broker.ErrTooLarge):
		r.Outcome, r.Reason = effect.Dead, reasons.TooLarge
	case errors.Is(err, broker.ErrNoPlace):
		r.Reason = reasons.Unroutable
	case errors.Is(err, broker.ErrRefused):
		r.Reason = reasons.BrokerRefused
	case errors.Is(err, broker.ErrUnreachable):
		r = effect.NotReached(ctx, err)
		if _, ok := errors.AsType[*broker.TLSError](err); ok {
			r.Reason = reasons.TLS
		}
	case effect.TimedOut(ctx, err):
		r.Reason = reasons.Timeout
	case ctx.Err() != nil:
		r.Reason = reasons.Stopped
	}
	return r
}

// message makes the message of an attempt. It is the same in every attempt.
func (s *Sender) message(call *effect.Call) (*broker.Message, error) {
	place, err := s.placeOf(call)
	if err != nil {
		return nil, err
	}
	body := call.Event.Body
	if call.Rendered != nil {
		body = call.Rendered
	}
	return &broker.Message{
		ID: call.Key, Place: place, Key: call.Event.SequenceKey, Attributes: attributes(call), ContentType: call.Event.ContentType, Body: body,
	}, nil
}

// attributes returns the attributes of the CloudEvent
// (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md#context-attributes). The id is the idempotency key,
// because two routes to one broker publish two messages about an event. "partitionkey", "sequence" and "traceparent" are
// documented extensions; those that begin with "oncegate" are ours. Names are an interface: never change.
func attributes(call *effect.Call) []broker.Attribute {
	e := &call.Event
	at := e.OccurredAt
	if at.IsZero() {
		at = e.ReceivedAt
	}
	var out []broker.Attribute
	for _, a := range []broker.Attribute{
		{Name: "specversion", Value: "1.0"},
		{Name: "id", Value: call.Key},
		{Name: "source", Value: "/oncegate/" + e.Source},
		{Name: "type", Value: e.Type},
		{Name: "time", Value: at.UTC().Format(time.RFC3339Nano)},
		{Name: "partitionkey", Value: e.SequenceKey},
		{Name: "sequence", Value: e.SequenceNumber},
		{Name: "traceparent", Value: e.Traceparent},
		{Name: "oncegateevent", Value: e.ID},
		{Name: "oncegateeventid", Value: e.EventID},
		{Name: "oncegateroute", Value: call.Route},
	} {
		if a.Value != "" {
			out = append(out, a)
		}
	}
	return out
}

// Preview implements [effect.Previewer].
func (s *Sender) Preview(call *effect.Call) (effect.Request, *effect.Result) {
	m, err := s.message(call)
	if err != nil {
		return effect.Request{}, &effect.Result{Outcome: effect.Dead, Reason: reasons.Render, Cause: err.Error()}
	}
	headers := map[string][]string{}
	for _, a := range m.Attributes {
		headers["ce-"+a.Name] = []string{a.Value}
	}
	if m.ContentType != "" {
		headers["Content-Type"] = []string{m.ContentType}
	}
	return effect.Request{Address: call.Address, Headers: headers, Body: m.Body}, nil
}

// errOtherBroker means that an attempt was made at a broker that the target no longer has.
var errOtherBroker = errors.New("the place is on another broker")
