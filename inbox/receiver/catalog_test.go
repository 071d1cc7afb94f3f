package receiver_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// shop is a receiver of one catalogue provider.
type shop struct {
	provider *providers.Provider
	secret   providers.Secret
	gate     *fakeGate
	refusals *keeper
	handler  http.Handler
}

func open(t *testing.T, name, secret string, keep ...string) *shop {
	t.Helper()
	all := catalogtest.Load(t)
	s := &shop{provider: all[name], secret: providers.Secret{Name: "main", Value: []byte(secret)}, gate: &fakeGate{}, refusals: &keeper{}}
	cfg := config(s.gate, s.provider)
	cfg.Refusals = s.refusals
	cfg.Sources["shop"].Secrets = func() []providers.Secret { return []providers.Secret{s.secret} }
	cfg.Sources["shop"].Inbox.Strict = s.provider.IsOperation()
	cfg.Sources["shop"].Keep = keep
	s.handler = newReceiver(t, cfg)
	return s
}

// request is a delivery as the provider would send it, signed by the provider's
// own rules with the secret.
func (s *shop) request(t *testing.T, secret, body string) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for _, prefix := range []string{"", "X-"} { // parts of the event id there
		req.Header.Set(prefix+"Shopify-Topic", "orders/paid")
		req.Header.Set(prefix+"Shopify-Shop-Domain", "example.myshopify.com")
	}
	signed := providers.Request{Method: req.Method, URL: "http://example.com/in/shop", Header: req.Header, Body: []byte(body), ReceivedAt: now}
	if err := s.provider.Sign(&signed, providers.Secret{Name: "main", Value: []byte(secret)}, "evt_1"); err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", "session=canary")
	req.Header.Set("Proxy-Authorization", "Bearer canary")
	return req
}

func (s *shop) send(req *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, req)
	return answer
}

// The example of GitHub's documentation for validating deliveries.
func TestGitHubsPublishedExample(t *testing.T) {
	t.Parallel()
	s := open(t, "github", "It's a Secret to Everybody")
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader("Hello, World!"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", "ping")
	req.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	req.Header.Set("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if answer := s.send(req); answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if seen := s.gate.admissions(); len(seen) != 1 || string(seen[0].Body) != "Hello, World!" || seen[0].Events[0].Unusable == "" {
		t.Errorf("the gate saw %+v", seen)
	}
}

// What is stored with a body verifies again, and holds nothing that is a
// credential.
func TestKeptHeadersVerifyAgain(t *testing.T) {
	t.Parallel()
	body := `{"id":"evt_1","type":"invoice.paid","event_id":"evt_1","created":1772366400}`
	for name, secret := range map[string]string{
		"stripe": "whsec_0123456789abcdef0123", "github": "0123456789abcdef01234567", "shopify": "0123456789abcdef01234567",
		"slack": "0123456789abcdef01234567", "standard-webhooks": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
		"hmac": "0123456789abcdef01234567",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, name, secret)
			if answer := s.send(s.request(t, secret, body)); answer.Code != 200 {
				t.Fatalf("%d %s %+v", answer.Code, answer.Body, s.refusals.refusals())
			}
			seen := s.gate.admissions()[0]
			stored := http.Header{}
			if err := json.Unmarshal(seen.Headers, &stored); err != nil {
				t.Fatalf("%v: %s", err, seen.Headers)
			}
			again := providers.Request{Method: "POST", URL: "http://example.com/in/shop", Header: stored, Body: seen.Body, ReceivedAt: seen.ReceivedAt}
			delivery, err := s.provider.Verify(&again, []providers.Secret{s.secret})
			if err != nil {
				t.Fatalf("verifying what was stored: %v", err)
			}
			if got, want := delivery.Items[0], seen.Events[0]; got.EventID != want.EventID || got.Type != want.Type || got.EventID == "" {
				t.Errorf("read again as %+v, was %+v", got, want)
			}
			if strings.Contains(string(seen.Headers), "canary") {
				t.Errorf("a credential is kept: %s", seen.Headers)
			}

			// A botched rotation: what is refused can be verified with the right secret.
			forged := s.send(s.request(t, strings.Replace(secret, "MD", "NE", 1)+"AAAA", body))
			kept := s.refusals.refusals()
			if forged.Code != 401 || forged.Body.Len() != 0 || len(kept) != 1 || !kept[0].Whole || string(kept[0].Body) != body {
				t.Fatalf("%d %q, kept %+v", forged.Code, forged.Body, kept)
			}
			if strings.Contains(string(kept[0].Headers), "canary") {
				t.Errorf("a credential is kept: %s", kept[0].Headers)
			}
		})
	}
}

// A static credential is no signature: whoever reads it could use it.
func TestCredentialsAreNeverKept(t *testing.T) {
	t.Parallel()
	for _, given := range [][2]string{
		{"X-Webhook-Token", "%s"}, {"Authorization", "Bearer %s"},
	} {
		s := open(t, "token", "the-right-token-of-24-bytes")
		for _, token := range []string{"the-right-token-of-24-bytes", "a-former-token-of-24-bytes-"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop?token="+token, strings.NewReader(`{"id":"evt_1"}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(given[0], strings.Replace(given[1], "%s", token, 1))
			s.send(req)
		}
		seen, kept := s.gate.admissions(), s.refusals.refusals()
		if len(seen) != 1 || len(kept) != 1 {
			t.Fatalf("%s: %d accepted, %d refused", given[0], len(seen), len(kept))
		}
		if strings.Contains(string(seen[0].Headers), "token-of") ||
			strings.Contains(string(kept[0].Headers)+kept[0].URL+kept[0].Diagnosis, "token-of") {
			t.Errorf("%s is kept: %s %+v", given[0], seen[0].Headers, kept[0])
		}
	}
}

// A header that carries credentials is never kept, not even where the provider signs in it
// and a route asks to pass it on.
func TestSignaturesInCredentialHeadersAreNeverKept(t *testing.T) {
	t.Parallel()
	const secret = "a secret of some length"
	for _, header := range []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"} {
		p, err := providers.Parse("own", []byte(`
verify:
  family: hmac
  signature: { headers: [`+header+`], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  timestamp: { from: none }
  signed: [body]
identity: { candidates: [{ json: id }] }
type: [{ literal: own }]
`))
		if err != nil {
			t.Fatal(err)
		}
		gate, refusals := &fakeGate{}, &keeper{}
		cfg := config(gate, p)
		cfg.Refusals = refusals
		cfg.Sources["shop"].Secrets = func() []providers.Secret { return []providers.Secret{{Name: "main", Value: []byte(secret)}} }
		cfg.Sources["shop"].Keep = []string{"X-Tenant", header, strings.ToLower(header)}
		handler := newReceiver(t, cfg)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(event))
		for _, signature := range []string{hex.EncodeToString(mac.Sum(nil)), strings.Repeat("ab", 32)} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(event))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Tenant", "acme")
			req.Header.Set(header, signature)
			handler.ServeHTTP(httptest.NewRecorder(), req)
		}
		seen, kept := gate.admissions(), refusals.refusals()
		if len(seen) != 1 || len(kept) != 1 {
			t.Fatalf("%s: %d accepted, %d refused", header, len(seen), len(kept))
		}
		const want = `{"Content-Type":["application/json"],"X-Tenant":["acme"]}`
		if string(seen[0].Headers) != want || string(kept[0].Headers) != want {
			t.Errorf("%s: kept with the event %s, with the refusal %s", header, seen[0].Headers, kept[0].Headers)
		}
	}
}

// What a target is to get is kept with the delivery, credentials excepted.
func TestWantedHeadersAreKept(t *testing.T) {
	t.Parallel()
	s := open(t, "token", "the-right-token-of-24-bytes", "x-tenant", "X-Webhook-Token", "authorization")
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(`{"id":"evt_1"}`))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-Webhook-Token": "the-right-token-of-24-bytes", "X-Tenant": "acme", "X-Other": "no",
	} {
		req.Header.Set(name, value)
	}
	s.send(req)
	seen := s.gate.admissions()
	if len(seen) != 1 || string(seen[0].Headers) != `{"Content-Type":["application/json"],"X-Tenant":["acme"]}` {
		t.Errorf("%+v", seen)
	}
}

func TestSlackTestsTheEndpoint(t *testing.T) {
	t.Parallel()
	s := open(t, "slack", "8f742231b10e8888abcd99yyyzzz85a5")
	body := `{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`
	answer := s.send(s.request(t, string(s.secret.Value), body))
	if answer.Code != 200 || answer.Body.String() != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" ||
		!strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("%d %s %v", answer.Code, answer.Body, answer.Header())
	}
	if forged := s.send(s.request(t, "another secret of 24 bytes", body)); forged.Code != 401 || forged.Body.Len() != 0 {
		t.Errorf("forged: %d %s", forged.Code, forged.Body)
	}
	if len(s.gate.admissions()) != 0 {
		t.Error("a handshake reached the gate")
	}
	event := s.send(s.request(t, string(s.secret.Value), `{"type":"event_callback","event_id":"Ev1"}`))
	if event.Code != 200 || event.Body.Len() != 0 || event.Header().Get("Oncegate-Event") != recordedID {
		t.Errorf("an event: %d %q %v", event.Code, event.Body, event.Header())
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	const token = "a-credential-of-24-bytes"
	header := func(name, key, bearer string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}}
		for n, v := range map[string]string{"Oncegate-Operation": name, "Idempotency-Key": key, "Authorization": bearer} {
			if v != "" {
				h.Set(n, v)
			}
		}
		return h
	}
	for name, test := range map[string]struct {
		header http.Header
		gate   inbox.Outcome
		status int
	}{
		"first":               {header("refund", "k1", "Bearer "+token), inbox.Recorded, 202},
		"again":               {header("refund", "k1", "Bearer "+token), inbox.Duplicate, 202},
		"other payload":       {header("refund", "k1", "Bearer "+token), inbox.Conflict, 409},
		"no key":              {header("refund", "", "Bearer "+token), inbox.Recorded, 400},
		"no name":             {header("", "k1", "Bearer "+token), inbox.Recorded, 400},
		"key with a space":    {header("refund", "k 1", "Bearer "+token), inbox.Recorded, 400},
		"no credential":       {header("refund", "k1", ""), inbox.Recorded, 401},
		"unknown credential":  {header("refund", "k1", "Bearer x"+token), inbox.Recorded, 401},
		"unknown, and no key": {header("refund", "", "Bearer x"+token), inbox.Recorded, 401}, // says nothing to strangers
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, "operation", token)
			s.gate.answer = answering(test.gate).answer
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(`{"amount":1}`))
			req.Header = test.header
			answer := s.send(req)
			if answer.Code != test.status {
				t.Errorf("%d %s, want %d", answer.Code, answer.Body, test.status)
			}
			seen := s.gate.admissions()
			if test.status >= 400 && test.status != 409 {
				if len(seen) != 0 {
					t.Error("it reached the gate")
				}
				return
			}
			if seen[0].Events[0].EventID != "main:refund:k1" || strings.Contains(string(seen[0].Headers), token) {
				t.Errorf("the gate saw %q with %s", seen[0].Events[0].EventID, seen[0].Headers)
			}
			if test.status == 409 && !strings.Contains(answer.Body.String(), `"paths":["amount","to.name"]`) {
				t.Errorf("the conflict says %s", answer.Body)
			}
		})
	}
}

var _ receiver.Provider = (*providers.Provider)(nil)

var _ receiver.RefusalKeeper = (*refusal.Store)(nil)

var _ receiver.Accepter = (*gate.Gate)(nil)

// A secret that a handshake brings is answered, shown to the operator among the
// refusals, in full and with what to do, and trusted by nobody.
func TestArrivedSecretIsShownOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "asana", "the secret we have")
	hello := func(brought string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader("{}"))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Hook-Secret", brought)
		return s.send(req)
	}
	if answer := hello("a planted secret"); answer.Code != 200 || answer.Header().Get("X-Hook-Secret") != "a planted secret" {
		t.Fatalf("%d %v", answer.Code, answer.Header())
	}
	kept := s.refusals.refusals()
	if len(kept) != 1 || string(kept[0].Body) != "a planted secret" || !kept[0].Whole || kept[0].SourceID != 7 ||
		!strings.Contains(kept[0].Diagnosis, "the page of the provider") || strings.Contains(kept[0].Diagnosis, "planted") || len(kept[0].Headers) > 0 {
		t.Fatalf("the operator is shown %+v", kept)
	}
	if answer := s.send(s.request(t, "a planted secret", `{"events":[{"action":"added"}]}`)); answer.Code != 401 {
		t.Errorf("a planted secret verifies: %d", answer.Code)
	}
	if seen := s.gate.admissions(); len(seen) != 0 {
		t.Errorf("the gate saw %+v", seen)
	}
	before := len(s.refusals.refusals())
	if answer := hello("the secret we have"); answer.Code != 200 || len(s.refusals.refusals()) != before {
		t.Errorf("%d; a secret that is known already is shown as new", answer.Code)
	}
}

// What comes by GET is recorded as the form that its query is; where the provider
// delivers by POST alone, a GET is no delivery.
func TestDeliveryByGET(t *testing.T) {
	t.Parallel()
	s := open(t, "twilio", "12345")
	get := func(query string) *http.Request {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/in/shop?"+query, nil)
		signed := providers.Request{Method: req.Method, URL: "http://example.com/in/shop?" + query, Header: req.Header, ReceivedAt: now}
		if err := s.provider.Sign(&signed, s.secret, ""); err != nil {
			t.Fatal(err)
		}
		return req
	}
	const query = "CallSid=CA1&CallStatus=completed&SequenceNumber=3"
	if answer := s.send(get(query)); answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	seen := s.gate.admissions()
	if len(seen) != 1 || string(seen[0].Body) != query || !strings.Contains(string(seen[0].Headers), "application/x-www-form-urlencoded") {
		t.Fatalf("the gate saw %+v", seen)
	}
	event := seen[0].Events[0]
	if !strings.HasPrefix(event.EventID, "sha256:") || event.Type != "call.completed" || event.Offset != 0 || event.Length != len(query) || event.Unusable != "" {
		t.Errorf("%+v", event)
	}
	spoiled := get(query)
	spoiled.URL.RawQuery = strings.Replace(query, "completed", "failed", 1)
	if answer := s.send(spoiled); answer.Code != 401 {
		t.Errorf("a changed query is answered with %d", answer.Code)
	}
	github := open(t, "github", "a secret")
	if answer := github.send(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/in/shop?id=1", nil)); answer.Code != 405 {
		t.Errorf("GitHub does not deliver by GET: %d", answer.Code)
	}
}

// A verified delivery that fits no rule of its provider is recorded under the type
// unknown and counted; one that comes again is not counted twice.
func TestUnknownEventsAreCounted(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	registry := prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	gate := &fakeGate{}
	secret := providers.Secret{Name: "main", Value: []byte("secret")}
	cfg := config(gate, all["intercom"])
	cfg.Metrics = metrics
	cfg.Sources["shop"].Secrets = func() []providers.Secret { return []providers.Secret{secret} }
	handler := newReceiver(t, cfg)
	send := func(body string) {
		signed := providers.Request{Method: http.MethodPost, URL: "http://example.com/in/shop", Header: http.Header{}, Body: []byte(body), ReceivedAt: now}
		if err := all["intercom"].Sign(&signed, secret, ""); err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(body))
		req.Header = signed.Header
		req.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		if answer.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", body, answer.Code, answer.Body)
		}
	}
	send(`{"id":"notif_1","topic":"user.created"}`)
	send(`{"something":"new"}`)
	gate.answer = func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		return receipt(a, inbox.Duplicate), nil
	}
	send(`{"something":"new"}`)
	seen := gate.admissions()
	if len(seen) != 3 || seen[1].Events[0].Type != "unknown" || seen[1].Events[0].Unusable != "" || !strings.HasPrefix(seen[1].Events[0].EventID, "sha256:") {
		t.Errorf("the gate saw %+v", seen)
	}
	if got := counted(t, registry, "oncegate_unknown_events_total", "shop"); got != 1 {
		t.Errorf("counted %v, not 1", got)
	}
}
