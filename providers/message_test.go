package providers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// structured is the example of https://github.com/cloudevents/spec/blob/main/cloudevents/formats/json-format.md.
const structured = `{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","subject":null,"id":"C234-1234-1234","time":"2018-04-05T17:31:00Z","comexampleextension1":"value","datacontenttype":"application/json","data":{"appinfoA":"abc"}}`

// TestMessageIdentity checks in which order a message of a broker is searched for its id, its type and its time.
func TestMessageIdentity(t *testing.T) {
	t.Parallel()
	p := load(t, "message")
	at := time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC)
	binary := http.Header{"Ce-Id": {"1234-1234-1234"}, "Ce-Source": {"/mycontext/subcontext"}, "Ce-Type": {"com.example.someevent"}, "Ce-Time": {"2018-04-05T03:56:24Z"}}
	with := func(of http.Header, more ...string) http.Header {
		out := of.Clone()
		for i := 0; i < len(more); i += 2 {
			out.Set(more[i], more[i+1])
		}
		return out
	}
	position := http.Header{"Oncegate-Broker-Position": {"orders/3/4711"}, "Oncegate-Broker-Time": {at.Format(time.RFC3339Nano)}}
	nats := with(position, "Nats-Msg-Id", "n-1", "Nats-Subject", "orders.created")
	for _, c := range []struct {
		name, body, id, kind string
		header               http.Header
		at                   time.Time
	}{
		{"binary mode", `{}`, "/mycontext/subcontext|1234-1234-1234", "com.example.someevent", with(binary, "Nats-Msg-Id", "n-1"), time.Date(2018, 4, 5, 3, 56, 24, 0, time.UTC)},
		{"structured mode", structured, "/mycontext|C234-1234-1234", "com.example.someevent", nats, time.Date(2018, 4, 5, 17, 31, 0, 0, time.UTC)},
		{"no CloudEvent", `{"id":"7","source":"shop","type":"t"}`, "n-1", "orders.created", nats, at},
		{"an id of RabbitMQ", `x`, "m-1", "order.created", http.Header{"Amqp-Message-Id": {"m-1"}, "Amqp-Type": {"order.created"}, "Amqp-Routing-Key": {"eu"}}, time.Time{}},
		{"a position", `x`, "orders/3/4711", "orders", with(position, "Kafka-Topic", "orders"), at},
		{"nothing", `{"a":1}`, "digest", "message", http.Header{}, time.Time{}},
	} {
		d, err := p.Verify(&providers.Request{Method: http.MethodPost, Header: c.header, Body: []byte(c.body), ReceivedAt: at}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		item := d.Items[0]
		if item.EventID != c.id && (c.id != "digest" || !isDigest(item)) || item.Type != c.kind || !item.OccurredAt.Equal(c.at) || item.Unusable != "" || d.IDUnsigned {
			t.Errorf("%s: %+v, unsigned %t; want id %s, type %s at %s", c.name, item, d.IDUnsigned, c.id, c.kind, c.at)
		}
	}
}

// TestMessageOfYourOwn checks that a provider that extends message reads the id where its user says, and that a message with two
// ids is unusable.
func TestMessageOfYourOwn(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: message
identity: { candidates: [{ json: order.id }, { header: Oncegate-Broker-Position }] }
`)
	verify := func(header http.Header, body string) providers.Item {
		t.Helper()
		d, err := p.Verify(&providers.Request{Method: http.MethodPost, Header: header, Body: []byte(body)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d.Items[0]
	}
	position := http.Header{"Oncegate-Broker-Position": {"orders/3/4711"}}
	if item := verify(position, `{"order":{"id":"o-1"}}`); item.EventID != "o-1" {
		t.Errorf("an id in the payload: %+v", item)
	}
	if item := verify(position, `{"order":{}}`); item.EventID != "orders/3/4711" {
		t.Errorf("no id in the payload: %+v", item)
	}
	if item := verify(position, `{"order":{"id":"a\u0000b"}}`); item.Unusable == "" || item.EventID != "" {
		t.Errorf("an id that cannot be stored: %+v", item)
	}
}
