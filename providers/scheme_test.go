package providers_test

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/scheme"
	"github.com/oncegate/oncegate/providers/testdata"
)

// vector finds one of the published vectors.
func vector(tb testing.TB, provider, name string) *providertest.Vector {
	tb.Helper()
	all, err := providertest.Vectors(testdata.Files, provider)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range all {
		if all[i].Case == name {
			return &all[i]
		}
	}
	tb.Fatalf("%s has no vector %s", provider, name)
	return nil
}

// broken is a key store that is down.
type broken struct{}

func (broken) Fetch(scheme.KeyRequest) ([]byte, error) { return nil, errors.New("connection refused") }

// rubbish is a key store that answers something else.
type rubbish string

func (r rubbish) Fetch(scheme.KeyRequest) ([]byte, error) { return []byte(r), nil }

// A fault of a key store is never a refusal: the sender is to come again.
func TestKeyStoreFaults(t *testing.T) {
	t.Parallel()
	for provider, name := range map[string]string{
		"amazon-sns": "valid-notification-v1-sha1", "paypal": "valid-official-java", "plaid": "valid", "google-pubsub": "valid",
		"generic-jwt": "valid", "fusionauth": "valid-rs256", "adobe-io-events": "valid-both",
	} {
		v := vector(t, provider, name)
		for what, store := range map[string]providers.Fetcher{"down": broken{}, "rubbish": rubbish("<html>"), "empty": rubbish("{}"), "none": nil} {
			if what == "empty" && (provider == "google-pubsub" || provider == "generic-jwt" || provider == "fusionauth") {
				continue // a set without keys is a set
			}
			p, err := load(t, provider).Bind(providers.Binding{Settings: v.Settings, Fetcher: store})
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Verify(v.Request(), v.Secrets())
			if _, refused := errors.AsType[*providers.Refusal](err); err == nil || refused {
				t.Errorf("%s, store %s: %v", provider, what, err)
			}
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider string
		settings map[string][]string
		want     string
	}{
		"missing":        {"paypal", nil, "webhook_id is missing"},
		"empty":          {"paypal", map[string][]string{"webhook_id": {""}}, "empty value"},
		"unknown":        {"paypal", map[string][]string{"webhook_id": {"1"}, "webhok": {"1"}}, "webhok is unknown"},
		"none taken":     {"stripe", map[string][]string{"a": {"1"}}, "takes none"},
		"not an ARN":     {"amazon-sns", map[string][]string{"topic_arns": {"x"}}, "topic_arns"},
		"every address":  {"generic-ip-allowlist", map[string][]string{"cidrs": {"0.0.0.0/0"}}, "proves nothing"},
		"not insecure":   {"mollie-classic", map[string][]string{"insecure": {"yes"}}, "must be true"},
		"http keys":      {"fusionauth", map[string][]string{"keys_url": {"http://a.example/"}}, "keys_url"},
		"foreign keys":   {"google-pubsub", map[string][]string{"audience": {"a"}, "email": {"b"}, "keys_url": {"https://evil.example/"}}, "keys_url"},
		"foreign plaid":  {"plaid", map[string][]string{"keys_url": {"https://evil.example/"}}, "keys_url"},
		"no certificate": {"generic-mtls", map[string][]string{"certificate_header": {"Client-Cert"}, "ca": {"x"}, "san_dns": {"a"}}, "no certificate"},
		"any header":     {"generic-mtls", map[string][]string{"certificate_header": {"X-SSL-Cert"}, "ca": {"x"}, "san_dns": {"a"}}, "certificate_header"},
		"no issuer":      {"azure-event-grid", map[string][]string{"audience": {"a"}}, "issuer"},
		"odd algorithm":  {"generic-jwt", map[string][]string{"keys_url": {"https://a.example/"}, "issuer": {"i"}, "audience": {"a"}, "algorithms": {"none"}}, "algorithms"},
	} {
		p := load(t, c.provider)
		err := p.CheckSettings(c.settings)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, bindErr := p.Bind(providers.Binding{Settings: c.settings}); bindErr == nil {
			t.Errorf("%s is bound", name)
		}
	}
	// An unbound provider verifies nothing, which is a fault of Oncegate's.
	req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, ReceivedAt: noon}
	_, err := load(t, "mollie-classic").Verify(req, nil)
	if _, refused := errors.AsType[*providers.Refusal](err); err == nil || refused {
		t.Errorf("unbound: %v", err)
	}
}

// Identical deliveries of a level provider are events of their own, while one
// delivery is the same event however often it is verified.
func TestLevel(t *testing.T) {
	t.Parallel()
	p, err := load(t, "mollie-classic").Bind(providers.Binding{Settings: map[string][]string{"insecure": {"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	id := func(after int, body string) string {
		t.Helper()
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte(body), ReceivedAt: noon.Add(time.Duration(after) * time.Microsecond)}
		d, err := p.Verify(req, nil)
		if err != nil || d.IDUnsigned || len(d.Items) != 1 || d.Items[0].Unusable != "" {
			t.Fatalf("%v %+v", err, d)
		}
		return d.Items[0].EventID
	}
	if first, again := id(0, "id=tr_1"), id(0, "id=tr_1"); first != again {
		t.Error("one delivery has two ids")
	}
	if id(0, "id=tr_1") == id(1, "id=tr_1") {
		t.Error("two deliveries of one body have one id")
	}
	if id(0, "id=tr_1") == id(0, "id=tr_2") {
		t.Error("two bodies have one id")
	}
	graph := vector(t, "microsoft-graph", "invalid-client-state-second-item")
	body := `{"value":[{"changeType":"updated","clientState":"` + graph.Secret + `"},{"changeType":"updated","clientState":"` + graph.Secret + `"}]}`
	d, err := load(t, "microsoft-graph").Verify(&providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body), ReceivedAt: noon}, graph.Secrets())
	if err != nil || len(d.Items) != 2 || d.Items[0].EventID == d.Items[1].EventID {
		t.Errorf("%v: equal items of one delivery have one id: %+v", err, d)
	}
}

// What a proxy says counts only from a trusted one, and an address only where it
// is known.
func TestConnection(t *testing.T) {
	t.Parallel()
	v := vector(t, "generic-mtls", "valid")
	p, err := v.Bind(load(t, "generic-mtls"))
	if err != nil {
		t.Fatal(err)
	}
	req := v.Request()
	req.Proxied = false
	if _, err := p.Verify(req, nil); reasonOf(t, err) != providers.ReasonUnsigned {
		t.Errorf("without a trusted proxy: %v", err)
	}
	// A proxy takes the header that it writes off what clients send, and no other one.
	forwarded := "X-Forwarded-Client-Cert"
	req = v.Request()
	req.Header.Set(forwarded, "")
	if _, err := p.Verify(req, nil); reasonOf(t, err) != providers.ReasonMismatch {
		t.Errorf("with a header that the proxy does not write: %v", err)
	}
	der, err := base64.StdEncoding.DecodeString(strings.Trim(v.Request().Header.Get("Client-Cert"), ":"))
	if err != nil {
		t.Fatal(err)
	}
	envoy := *v
	envoy.Settings = maps.Clone(v.Settings)
	envoy.Settings["certificate_header"] = []string{forwarded}
	if p, err = envoy.Bind(load(t, "generic-mtls")); err != nil {
		t.Fatal(err)
	}
	req = v.Request()
	if _, err := p.Verify(req, nil); reasonOf(t, err) != providers.ReasonMismatch {
		t.Errorf("a client's own certificate in the header of the other kind of proxy: %v", err)
	}
	req.Header.Del("Client-Cert")
	if _, err := p.Verify(req, nil); reasonOf(t, err) != providers.ReasonUnsigned {
		t.Errorf("without a certificate: %v", err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	req.Header.Set(forwarded, `Hash=00,Hash=01;Cert="`+url.PathEscape(text)+`"`)
	if _, err := p.Verify(req, nil); err != nil {
		t.Errorf("as Envoy hands a certificate on: %v", err)
	}
	ip := vector(t, "generic-ip-allowlist", "valid-v4")
	p, err = ip.Bind(load(t, "generic-ip-allowlist"))
	if err != nil {
		t.Fatal(err)
	}
	req = ip.Request()
	req.Remote = netip.MustParseAddr("34.232.58.14")
	if _, err := p.Verify(req, nil); reasonOf(t, err) != providers.ReasonMismatch {
		t.Errorf("another address: %v", err)
	}
	req.Remote = netip.Addr{}
	if _, err := p.Verify(req, nil); err == nil {
		t.Error("no address is accepted")
	}
}

// The answer to Braintree's challenge is signed with the key that signs notifications,
// for anybody who asks. None of it may be a delivery.
func TestBraintreeAnswersNoForger(t *testing.T) {
	t.Parallel()
	v := vector(t, "braintree", "valid")
	p, err := v.Bind(load(t, "braintree"))
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(signature, payload string) error {
		t.Helper()
		req := v.Request()
		req.Body = []byte(url.Values{"bt_signature": {signature}, "bt_payload": {payload}}.Encode())
		_, err := p.Verify(req, v.Secrets())
		return err
	}
	rapid.Check(t, func(r *rapid.T) {
		challenge := rapid.StringMatching(`[a-f0-9]{20,32}`).Draw(r, "challenge")
		reply, ok, err := p.Handshake(&providers.Request{
			Method: http.MethodGet, URL: "https://x.example/in/a?bt_challenge=" + challenge, Header: http.Header{}, ReceivedAt: noon,
		}, v.Secrets())
		if err != nil || !ok {
			r.Fatalf("the challenge is not answered: %v", err)
		}
		for _, payload := range []string{challenge, challenge + "\n", challenge + "\n\n"} {
			if err := deliver(string(reply.Body), payload); reasonOf(t, err) != providers.ReasonMismatch {
				r.Errorf("the answer to a challenge verifies %q: %v", payload, err)
			}
		}
	})
	// These payloads are signed and are not notifications.
	for _, text := range []string{"", "hello", "<notification>", "<notification/><notification/>", "<note><kind>a</kind></note>", `{"kind":"a"}`} {
		req := v.Request()
		req.Body = []byte(text)
		if err := p.Sign(req, v.Secrets()[0], ""); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Verify(req, v.Secrets()); reasonOf(t, err) == "" {
			t.Errorf("%q is a delivery", text)
		}
	}
}

// Xero's sequence counts within a delivery; an empty one is acknowledged and
// records nothing.
func TestXero(t *testing.T) {
	t.Parallel()
	event := `{"resourceId":"r","eventDateUtc":"2024-01-01T00:00:00.%s","eventType":"UPDATE","eventCategory":"CONTACT","tenantId":"t"}`
	body := `{"events":[` + strings.ReplaceAll(event, "%s", "100") + `,` + strings.ReplaceAll(event, "%s", "200") + `],"firstEventSequence":7,"lastEventSequence":8}`
	xero := load(t, "xero")
	items := accept(t, xero, body)
	if len(items) != 2 || items[0].SequenceNumber != "7" || items[1].SequenceNumber != "8" || items[0].SequenceKey != "t|r" || items[0].EventID == items[1].EventID {
		t.Errorf("%+v", items)
	}
	if items := accept(t, xero, `{"events":[],"firstEventSequence":0}`); len(items) != 0 {
		t.Errorf("%+v", items)
	}
	if reply := xero.Answer(providers.Accepted, "e", "recorded"); reply.Status != 200 || len(reply.Body) != 0 {
		t.Errorf("%+v", reply)
	}
}

// QuickBooks sends two shapes.
func TestQuickBooks(t *testing.T) {
	t.Parallel()
	qb := load(t, "quickbooks")
	cloud := accept(t, qb, `[{"specversion":"1.0","id":"a","type":"qbo.customer.created.v1","time":"2024-01-01T00:00:00Z","intuitentityid":"1","intuitaccountid":"2"},{"specversion":"1.0","id":"b","type":"x"}]`)
	if len(cloud) != 2 || !strings.Contains(cloud[0].EventID, "a") || cloud[0].SequenceKey != "2|1" || cloud[0].Type != "qbo.customer.created.v1" {
		t.Errorf("%+v", cloud)
	}
	old := accept(t, qb, vector(t, "quickbooks", "valid-legacy-payload").Body)
	if len(old) != 2 || old[0].Type != "Customer.Create" || old[0].EventID == old[1].EventID || !strings.HasPrefix(old[0].SequenceKey, "1185883450|") {
		t.Errorf("%+v", old)
	}
}

// FuzzSchemes checks that no token, message or structured field causes a panic, and that none is
// accepted.
func FuzzSchemes(f *testing.F) {
	for _, seed := range []string{
		"eyJhbGciOiJIUzI1NiJ9.e30.AA", "Bearer a.b.c", `sig=("content-digest");created=1;keyid="k"`, "sig=:AAAA:", "sha-256=:AAAA:",
		`{"Type":"Notification","Signature":"AA==","TopicArn":"arn:aws:sns:eu-west-1:123456789012:t"}`,
		`{"notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"AA=="}}}]}`,
		"bt_signature=a|00&bt_payload=AA==", "p_signature=AA==&a=b", `{"value":[{"clientState":"x"}]}`, ":AAAA:", `Cert="-----BEGIN"`,
	} {
		f.Add(seed, seed)
	}
	type bound struct {
		p       *providers.Provider
		secrets []providers.Secret
	}
	all := map[string]bound{}
	for provider, name := range map[string]string{
		"amazon-sns": "valid-notification-v1-sha1", "paypal": "valid-official-java", "plaid": "valid", "google-pubsub": "valid", "generic-jwt": "valid",
		"fusionauth": "jwt-hs256", "adobe-io-events": "valid-both", "adyen": "valid-official-event", "braintree": "valid", "paddle-classic": "valid",
		"rfc9421": "B.2.3-full-rsa-pss-sha512", "generic-mtls": "valid", "microsoft-graph": "invalid-client-state-second-item",
	} {
		v := vector(f, provider, name)
		p, err := v.Bind(load(f, provider))
		if err != nil {
			f.Fatal(err)
		}
		all[provider] = bound{p, v.Secrets()}
	}
	f.Fuzz(func(t *testing.T, header, body string) {
		for name, b := range all {
			req := &providers.Request{Method: http.MethodPost, URL: "https://example.com/", Header: http.Header{}, Body: []byte(body), ReceivedAt: noon, Proxied: true}
			for _, h := range []string{
				"Authorization", "Plaid-Verification", "X-Signature-JWT", "X-FusionAuth-Signature-JWT", "Signature", "Signature-Input", "Content-Digest", "Client-Cert",
				"Paypal-Transmission-Sig", "Paypal-Transmission-Id", "Paypal-Transmission-Time", "Paypal-Cert-Url", "X-Adobe-Digital-Signature-1", "X-Adobe-Public-Key1-Path",
			} {
				req.Header.Set(h, header)
			}
			if _, err := b.p.Verify(req, b.secrets); err == nil {
				t.Fatalf("%s accepted %q %q", name, header, body)
			}
			_, _, _ = b.p.Handshake(req, b.secrets)
		}
	})
}
