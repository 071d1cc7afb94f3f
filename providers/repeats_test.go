package providers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// sent signs a JSON or form body at a time and returns the delivery that its provider reads.
func sent(t *testing.T, p *providers.Provider, kind, body string, at time.Time) *providers.Delivery {
	t.Helper()
	secret := providers.Secret{Name: "current", Value: []byte("wsk_user:password")}
	req := &providers.Request{Method: http.MethodPost, URL: "https://hooks.example.com/in/x", Header: http.Header{"Content-Type": {kind}}, Body: []byte(body), ReceivedAt: at}
	if err := p.Sign(req, secret, "evt"); err != nil {
		t.Fatal(err)
	}
	d, err := p.Verify(req, []providers.Secret{secret})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRepeats sends the same payload twice, as senders do that mean two events, or one.
func TestRepeats(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	bind := func(name string, settings map[string][]string) *providers.Provider {
		p, err := all[name].Bind(providers.Binding{Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const firing = `{"status":"firing","groupKey":"{}:{}","alerts":[{"status":"firing","startsAt":"2026-11-24T10:00:00Z","fingerprint":"c6ea"}]}`
	each := map[string][]string{"repeats": {"event"}}
	for _, c := range []struct {
		name  string
		p     *providers.Provider
		first string
		again string
		same  bool
	}{
		{"revolut: an order is declined twice", all["revolut"], `{"event":"ORDER_PAYMENT_DECLINED","order_id":"o1"}`, "", false},
		{"revolut: a state of Business is sent again", all["revolut"], `{"event":"TransactionStateChanged","timestamp":"2026-11-24T10:00:00Z","data":{"id":"t1"}}`, "", true},
		{"webex: a person is made a moderator twice", all["webex"], `{"id":"w1","resource":"memberships","event":"updated","data":{"id":"m1","isModerator":true}}`, "", false},
		{"webex: a message is sent again", all["webex"], `{"id":"w1","resource":"messages","event":"created","data":{"id":"m1"}}`, "", true},
		{"alertmanager: a repeat", bind("alertmanager", nil), firing, "", true},
		{"alertmanager: a repeat that must act", bind("alertmanager", each), firing, "", false},
		{"grafana: a repeat", bind("grafana", nil), firing, "", true},
		{"grafana: a repeat that must act", bind("grafana", each), firing, "", false},
		{
			"chargebee: the state of the webhook changes", all["chargebee"],
			`{"id":"ev_1","event_type":"x","webhook_status":"scheduled","webhooks":[{"id":"w","webhook_status":"scheduled"}]}`,
			`{"id":"ev_1","event_type":"x","webhook_status":"re_scheduled","webhooks":[{"id":"w","webhook_status":"failed"}]}`, true,
		},
	} {
		if c.again == "" {
			c.again = c.first
		}
		one := sent(t, c.p, "application/json", c.first, noon).Items[0].EventID
		two := sent(t, c.p, "application/json", c.again, noon.Add(time.Minute)).Items[0].EventID
		if (one == two) != c.same {
			t.Errorf("%s: ids %s and %s", c.name, one, two)
		}
	}
	if differences := all["chargebee"].Differences([]byte(`{"id":"1","webhook_status":"a"}`), []byte(`{"id":"1","webhook_status":"b"}`)); len(differences) > 0 {
		t.Errorf("chargebee: a retry differs from the first delivery in %v", differences)
	}
	if _, err := all["grafana"].Bind(providers.Binding{Settings: map[string][]string{"repeats": {"yes"}}}); err == nil || !strings.Contains(err.Error(), `setting repeats is "yes"; say event, or leave it out`) {
		t.Errorf("repeats: yes: %v", err)
	}
}

// TestTwilioTypes tells a call that failed from a message that failed.
func TestTwilioTypes(t *testing.T) {
	t.Parallel()
	p := catalogtest.Load(t)["twilio"]
	for body, want := range map[string]string{
		"MessageSid=SM1&MessageStatus=failed&SmsStatus=failed": "message.failed",
		"MessageSid=SM1&SmsStatus=received&Body=hello":         "message.received",
		"CallSid=CA1&CallStatus=failed":                        "call.failed",
		"CallSid=CA1&RecordingStatus=completed":                "recording.completed",
		"MessageSid=SM1&Body=hello":                            "message",
	} {
		if got := sent(t, p, "application/x-www-form-urlencoded", body, noon).Items[0].Type; got != want {
			t.Errorf("%s has type %s, not %s", body, got, want)
		}
	}
}
