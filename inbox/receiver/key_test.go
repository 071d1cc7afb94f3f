package receiver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/scheme"
)

// noStore is a key store that nobody reaches.
type noStore struct{ asked atomic.Int64 }

func (s *noStore) Fetch(scheme.KeyRequest) ([]byte, error) {
	s.asked.Add(1)
	return nil, errors.New("lookup: no such host")
}

// An address that is none of the sender's is the sender's fault: 401, a refusal with its
// reason, no error in the log, and nobody is asked.
func TestForeignKeyAddressIsTheSendersFault(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	const signature = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	sns := func(address string) *http.Request {
		body, _ := json.Marshal(map[string]string{
			"Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:eu-west-1:123456789012:orders", "Message": "hello", "Timestamp": "2026-03-01T12:00:00Z",
			"SignatureVersion": "2", "Signature": signature, "SigningCertURL": address,
		})
		return httptest.NewRequest(http.MethodPost, "/in/shop", bytes.NewReader(body))
	}
	paypal := func(address string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/in/shop", strings.NewReader(`{"id":"WH-1","event_type":"a"}`))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Paypal-Transmission-Id": "1", "Paypal-Transmission-Time": "2026-03-01T12:00:00Z",
			"Paypal-Transmission-Sig": signature, "Paypal-Auth-Algo": "SHA256withRSA", "Paypal-Cert-Url": address,
		} {
			r.Header.Set(name, value)
		}
		return r
	}
	adobe := func(path string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/in/shop", strings.NewReader(`{"event_id":"1"}`))
		r.Header.Set("Content-Type", "application/json")
		for _, n := range []string{"1", "2"} {
			r.Header.Set("X-Adobe-Digital-Signature-"+n, signature)
			r.Header.Set("X-Adobe-Public-Key"+n+"-Path", path)
		}
		return r
	}
	settings := map[string]map[string][]string{
		"amazon-sns":      {"topic_arns": {"arn:aws:sns:eu-west-1:123456789012:orders"}},
		"paypal":          {"webhook_id": {"8PT597110X687430L"}},
		"adobe-io-events": {"client_id": {"3ce1f0e4c7a84d0f9d1b6a2b8c7e5f10"}},
	}
	const pem = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
	const cert = "/v1/notifications/certs/CERT-360caa42-fca2a594-a5cafa77"
	for _, c := range []struct {
		provider string
		make     func(address string) *http.Request
		address  string
	}{
		{"amazon-sns", sns, "https://sns.evil.example" + pem},
		{"amazon-sns", sns, "https://sns.nowhere-1.amazonaws.com" + pem}, // a host that does not exist
		{"amazon-sns", sns, "https://sns.us-east-1.amazonaws.com" + pem}, // another region's
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com.evil.example" + pem},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com:8443" + pem},
		{"amazon-sns", sns, "https://a@sns.eu-west-1.amazonaws.com" + pem},
		{"amazon-sns", sns, "http://sns.eu-west-1.amazonaws.com" + pem},
		{"amazon-sns", sns, "https://SNS.eu-west-1.amazonaws.com" + pem},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com" + pem + "?a=1"},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com" + pem + "#a"},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com/a" + pem},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com//x/.." + pem},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com/evil.pem"},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-.pem"},
		{"amazon-sns", sns, "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-" + strings.Repeat("a", 129) + ".pem"},
		{"paypal", paypal, "https://evil.example" + cert},
		{"paypal", paypal, "https://nowhere.paypal.com" + cert},
		{"paypal", paypal, "https://api.paypal.com.evil.example" + cert},
		{"paypal", paypal, "https://api.paypal.com@evil.example" + cert},
		{"paypal", paypal, "http://api.paypal.com" + cert},
		{"paypal", paypal, "https://api.paypal.com" + cert + "?a=1"},
		{"paypal", paypal, "https://api.paypal.com" + cert + "/../CERT-1"},
		{"paypal", paypal, "https://api.paypal.com/v1/notifications/certs/evil"},
		{"paypal", paypal, "https://api.paypal.com/"},
		{"adobe-io-events", adobe, "/evil.pem"},
		{"adobe-io-events", adobe, "/prod/keys/../keys/pub-key-1.pem"},
		{"adobe-io-events", adobe, "@evil.example/prod/keys/pub-key-1.pem"},
		{"adobe-io-events", adobe, "https://evil.example/prod/keys/pub-key-1.pem"},
		{"adobe-io-events", adobe, "/prod/keys/pub-key-1.pem?a=1"},
	} {
		var log bytes.Buffer
		keys := &noStore{}
		bound, err := all[c.provider].Bind(providers.Binding{Settings: settings[c.provider], Fetcher: keys})
		if err != nil {
			t.Fatal(err)
		}
		kept := &keeper{}
		cfg := config(&fakeGate{}, bound)
		cfg.Refusals, cfg.Logger = kept, slog.New(slog.NewJSONHandler(&log, nil))
		answer := httptest.NewRecorder()
		newReceiver(t, cfg).ServeHTTP(answer, c.make(c.address))
		if answer.Code != http.StatusUnauthorized || answer.Header().Get("Retry-After") != "" {
			t.Errorf("%s: %d %v", c.address, answer.Code, answer.Header())
		}
		if all := kept.refusals(); len(all) != 1 || all[0].Cause != "mismatch" || all[0].Diagnosis == "" {
			t.Errorf("%s: kept %+v", c.address, all)
		}
		if keys.asked.Load() != 0 {
			t.Errorf("%s: asked for", c.address)
		}
		if strings.Contains(log.String(), `"level":"ERROR"`) || !strings.Contains(log.String(), `"msg":"delivery refused"`) {
			t.Errorf("%s: %s", c.address, &log)
		}
	}
}

// A key that could not be asked for is nothing that somebody has to look at: anybody can
// invent one.
func TestUnknownKeyIsNoFault(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := config(&fakeGate{}, newProvider())
	cfg.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	newReceiver(t, cfg).ServeHTTP(httptest.NewRecorder(), newRequest(t, &answerCase{body: event, header: map[string]string{"X-Provoke": "unknown key"}}))
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"level":"INFO"`) || !strings.Contains(text, "its key is not known") {
		t.Error(text)
	}
}
