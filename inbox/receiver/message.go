package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// Message is a message that a source has consumed from a broker.
type Message struct {
	Header http.Header
	Body   []byte

	// At is when the broker got the message. A signed time is compared with it, because the message may have waited there.
	At time.Time

	// Since is when the message was first passed to [Receiver.Deliver].
	Since time.Time
}

// Delivered is the result of [Receiver.Deliver].
type Delivered struct {
	// Settled means that the message is recorded, or refused and kept, so that the broker may forget it.
	Settled bool

	// Refused means that the message did not verify. It is kept as a refusal.
	Refused bool

	// After is how long the caller waits before it passes an unsettled message again; 0 leaves it to the caller.
	After time.Duration

	// Err is why the message is not settled. It is nil if a quota is used up.
	Err error
}

// messagePatience is how long a message waits that cannot be verified because its key cannot be fetched or its provider
// fails. The receiver then refuses it, so that the messages behind it can proceed.
const messagePatience = 5 * time.Minute

// Deliver verifies a message of a source with [Source.Consumed] like a delivery, and records it. It does not wait for a
// quota. Duplicates and conflicts are recorded as of deliveries. The caller acknowledges the message if it is settled,
// and must not change it before Deliver returns.
func (r *Receiver) Deliver(ctx context.Context, source string, m *Message) Delivered {
	e := r.consumed[source]
	if e == nil {
		return Delivered{Err: fmt.Errorf("source %s takes no messages", source)}
	}
	req := &request{source: e, started: r.cfg.Now(), message: m}
	req.http = (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/in/" + source}, Header: m.Header, ContentLength: int64(len(m.Body))}).WithContext(ctx)
	req.id = r.requestID(req.http)
	req.incoming = providers.Request{
		Method: http.MethodPost, URL: r.address(req.http, e.ExternalURL), Header: m.Header, Body: m.Body, ReceivedAt: m.At.UTC().Truncate(time.Microsecond),
	}
	res, err := r.deliverMessage(req)
	if settled := res.outcome.acknowledged() || res.outcome == outcomeEmpty || res.outcome == outcomeRefused; !settled {
		if err == nil && res.outcome != outcomeOverloaded {
			err = fmt.Errorf("a message could not be verified: %s", res.outcome)
		}
		return Delivered{After: time.Duration(res.problem.retryAfter) * time.Second, Err: err}
	}
	r.endTrace(req, &res, 0)
	r.metrics.bytes.WithLabelValues(e.count.label).Observe(float64(len(m.Body)))
	e.count.observe(&res, req.tenant(), req.started, r.cfg.Now().Sub(req.started), 0)
	return Delivered{Settled: true, Refused: res.outcome == outcomeRefused}
}

// deliverMessage takes a message through. err says why the gate did not record it.
func (r *Receiver) deliverMessage(req *request) (res result, err error) {
	defer func() {
		if value := recover(); value != nil {
			r.logPanic(req, value)
			res, err = r.giveUp(req, result{outcome: outcomeUnavailable}), nil
		}
	}()
	admission, delivery, res := r.admissionOf(req)
	if admission == nil {
		return r.giveUp(req, res), nil
	}
	admission.ReceivedAt = req.started.UTC().Truncate(time.Microsecond) // retention must not follow the broker's clock
	receipt, err := r.record(req, admission)
	if err != nil {
		res, _ = r.unrecorded(req, err)
		return res, err
	}
	return r.conclude(req, delivery, &receipt), nil
}

// admissionOf verifies a message and makes its admission. It returns nil, with the result, if there is nothing to record.
func (r *Receiver) admissionOf(req *request) (*inbox.Admission, *providers.Delivery, result) {
	if size, limit := len(req.message.Body), req.source.maxBody; int64(size) > limit {
		if req.source.proves { // a body that is not read whole cannot be verified
			return nil, nil, r.refuse(req, &req.incoming, reasonTooLarge, fmt.Sprintf("%d bytes, the limit is %d", size, limit))
		}
		admission, delivery := tooLarge(req, limit)
		return admission, delivery, result{}
	}
	delivery, err := req.source.Provider.Verify(&req.incoming, req.source.Secrets())
	if res, ok := r.verified(req, delivery, err); !ok {
		return nil, nil, res
	}
	return newAdmission(req, delivery), delivery, result{}
}

// giveUp refuses a message that could not be verified for too long. It returns any other result unchanged.
func (r *Receiver) giveUp(req *request, res result) result {
	if res.outcome != outcomeKeyAwaited && res.outcome != outcomeUnavailable || req.started.Sub(req.message.Since) < messagePatience {
		return res
	}
	why := "its provider failed on it for "
	if res.outcome == outcomeKeyAwaited {
		why = "its key could not be fetched for "
	}
	return r.refuse(req, &req.incoming, reason(providers.ReasonMismatch), why+messagePatience.String())
}

// tooLarge makes the admission of a message that is larger than its source takes. A description takes the place of its body,
// so that the event is a dead letter with an id to itself.
func tooLarge(req *request, limit int64) (*inbox.Admission, *providers.Delivery) {
	m := req.message
	sum := sha256.Sum256(m.Body)
	text, err := json.Marshal(struct {
		TooLarge int    `json:"too_large"`
		Limit    int64  `json:"limit"`
		SHA256   string `json:"sha256"`
		Position string `json:"position,omitempty"`
	}{len(m.Body), limit, hex.EncodeToString(sum[:]), m.Header.Get(HeaderPosition)})
	if err != nil { // numbers and texts always marshal
		text = []byte("{}")
	}
	delivery := &providers.Delivery{Items: []providers.Item{{
		Length: len(text), Type: providers.TypeUnknown,
		Unusable: fmt.Sprintf("too large: the message has %d bytes, and max_body is %d; it is not kept", len(m.Body), limit),
	}}}
	header := m.Header.Clone()
	header.Set("Content-Type", "application/json")
	return &inbox.Admission{
		Source: req.source.Inbox, Body: text, Headers: marshalHeaders(header, req.source.keep), Tenant: req.tenant(), Events: newEvents(delivery),
	}, delivery
}

// The headers that tell the provider and expressions where a message was in its broker. A message cannot choose them: what
// consumes it replaces them.
const (
	// HeaderPosition identifies the message in the broker: topic, partition and offset, or stream and sequence number.
	HeaderPosition = "Oncegate-Broker-Position"
	// HeaderLane is what the broker keeps in order: a topic with its partition, a stream or a queue.
	HeaderLane = "Oncegate-Broker-Lane"
	// HeaderTime is when the broker got the message, in RFC 3339.
	HeaderTime = "Oncegate-Broker-Time"
)
