package publish_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/publish"
)

// The names of headers are those of the bindings of CloudEvents for Kafka and NATS, and those of the extensions
// "partitioning", "sequence" and "distributed tracing"
// (https://github.com/cloudevents/spec/tree/main/cloudevents/bindings and .../extensions).
func TestMessagesAreCloudEvents(t *testing.T) {
	t.Parallel()
	attributes := map[string]string{
		"specversion": "1.0", "id": "key-1", "source": "/oncegate/shop", "type": "order.paid", "time": "2023-11-14T22:13:20Z",
		"partitionkey": "order_7", "sequence": "42", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"oncegateevent": "01890a5d-ac96-774b-bcce-b302099a8057", "oncegateeventid": "evt_1", "oncegateroute": "fulfil",
	}
	for _, b := range effecttest.Brokers() {
		t.Run(b.Scheme, func(t *testing.T) {
			t.Parallel()
			server := b.Start(t, faulttest.Options{})
			sender := newPublish(t, effecttest.PublishTo{URL: server.URL, Place: server.Place, Within: server.Within})
			call := effecttest.Call(1)
			if r := sender.Send(t.Context(), call); r.Outcome != effect.Done || r.Recognised {
				t.Fatalf("%+v", r)
			}
			second := sender.Send(t.Context(), call)
			prefix, want := "ce_", maps.Clone(attributes)
			want["content-type"] = call.Event.ContentType
			switch b.Scheme {
			case "kafka":
				want["(key)"] = "order_7"
			case "amqp":
				prefix, want["message-id"] = "cloudEvents_", "key-1"
			default:
				prefix, want["Nats-Msg-Id"], want["Nats-Expected-Stream"] = "ce-", "key-1", "orders"
			}
			// Only JetStream recognises the id of a message.
			if second.Outcome != effect.Done || second.Recognised != (b.Scheme == "nats") {
				t.Errorf("the second time: %+v", second)
			}
			got, body := effecttest.CloudEvent(t, server.Messages()[0], prefix)
			if !maps.Equal(got, want) || body != string(call.Event.Body) {
				t.Errorf("%v %q, want %v", got, body, want)
			}
		})
	}
}

func TestAMappedBodyIsPublished(t *testing.T) {
	t.Parallel()
	server := faulttest.NewNATS(t, faulttest.Options{})
	sender := newPublish(t, effecttest.PublishTo{URL: server.URL, Place: server.Place})
	call := effecttest.Call(1)
	call.Rendered, call.Event.ContentType = []byte(`{"order":7}`), "application/json"
	if r := sender.Send(t.Context(), call); r.Outcome != effect.Done {
		t.Fatalf("%+v", r)
	}
	if got := server.Messages()[0]; !strings.HasSuffix(got, "\n\n{\"order\":7}") || !strings.Contains(got, "content-type: application/json\n") {
		t.Errorf("%q", got)
	}
}

// A value in braces is a part of one token, whatever it contains.
func TestPlacesOfEvents(t *testing.T) {
	t.Parallel()
	address, _, _, err := broker.ParseAddress("nats://a:1,b:2")
	if err != nil {
		t.Fatal(err)
	}
	made := func(address broker.Address, place, value string) (*publish.Sender, error) {
		return publish.New(publish.Config{
			Broker: broker.Config{Address: address}, Place: place,
			Values: map[string]publish.Value{"v": func(*effect.Call) (string, error) { return value, nil }},
		})
	}
	for value, want := range map[string]string{
		"DE": "orders.DE.paid", "a.b": "orders.a%2Eb.paid", "*": "orders.%2A.paid", ">": "orders.%3E.paid", "a b\n": "orders.a%20b%0A.paid", "ü": "orders.%C3%BC.paid", "%": "orders.%25.paid",
	} {
		sender, err := made(address, "orders.{v}.paid", value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sender.Address(&effect.Call{})
		if err != nil || got != "nats://a:1,b:2 "+want {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
	for _, value := range []string{"", strings.Repeat("x", 300)} {
		sender, err := made(address, "orders.{v}", value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sender.Address(&effect.Call{}); err == nil {
			t.Errorf("%.20q makes %q", value, got)
		}
	}
	sender, err := made(address, "orders.{v}", "x")
	if err != nil {
		t.Fatal(err)
	}
	for stored, want := range map[string]bool{
		"nats://b:2,c:3 orders.y": true, "nats://c:3 orders.y": false, "kafka://a:1 orders.y": false, "orders.y": false, "": false,
	} {
		if got := sender.Reaches(stored); got != want {
			t.Errorf("%q is reached: %t", stored, got)
		}
	}
}

func TestWhatIsNoPlaceIsRefused(t *testing.T) {
	t.Parallel()
	for url, places := range map[string][]string{
		"nats://a":  {"", "a b", "a.*", "a.>", "a..b", ".a", "a.", "ü", "{", "}", "{}", "{w}", strings.Repeat("a", 300)},
		"kafka://a": {"", "a b", "{v}", strings.Repeat("a", 300)},
		"amqp://a":  {"", "a b", "{w}"},
	} {
		address, _, _, err := broker.ParseAddress(url)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			_, err := publish.New(publish.Config{
				Broker: broker.Config{Address: address}, Place: place,
				Values: map[string]publish.Value{"v": func(*effect.Call) (string, error) { return "x", nil }},
			})
			if err == nil || !slices.ContainsFunc([]string{"topic", "subject"}, func(key string) bool { return strings.Contains(err.Error(), key) }) {
				t.Errorf("%s %.20q: %v", url, place, err)
			}
		}
	}
}
