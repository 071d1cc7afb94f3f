package providers_test

import (
	"crypto/hmac"
	"crypto/sha1" // what Twilio signs with
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// TestEmptySecrets checks that an empty secret verifies nothing in any family, neither alone nor
// together with a right one, because anyone can sign with it.
func TestEmptySecrets(t *testing.T) {
	t.Parallel()
	const body = `{"id":"evt_1","type":"a.b"}`
	const address = "https://hooks.example/in/own"
	now := strconv.FormatInt(noon.Unix(), 10)
	twilio := hmac.New(sha1.New, nil)
	twilio.Write([]byte(address))
	for name, c := range map[string]struct {
		header, value, body string
	}{
		"stripe":            {"Stripe-Signature", "t=" + now + ",v1=" + hex.EncodeToString(mac("", now+"."+body)), body},
		"github":            {"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac("", body)), body},
		"shopify":           {"X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac("", body)), body},
		"netlify":           {"X-Webhook-Signature", tokenWith(t, "HS256", "", map[string]any{"iss": "netlify", "sha256": hex.EncodeToString(digestOf(body))}), body},
		"standard-webhooks": {"Webhook-Signature", "v1," + base64.StdEncoding.EncodeToString(mac("", "evt_1."+now+"."+body)), body},
		"twilio":            {"X-Twilio-Signature", base64.StdEncoding.EncodeToString(twilio.Sum(nil)), ""},
		"token":             {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(":")), body},
		"gitlab":            {"X-Gitlab-Token", "", body},
	} {
		req := &providers.Request{Method: http.MethodPost, URL: address, Header: http.Header{}, Body: []byte(c.body), ReceivedAt: noon}
		req.Header.Set(c.header, c.value)
		req.Header.Set("Webhook-Id", "evt_1")
		req.Header.Set("Webhook-Timestamp", now)
		p := load(t, name)
		for what, secrets := range map[string][]providers.Secret{
			"no bytes":           {{Name: "s", Value: []byte{}}},
			"nothing":            {{Name: "s"}},
			"none":               nil,
			"one beside another": {{Name: "s"}, {Name: "right", Value: []byte("c2VjcmV0IG9mIG9uZSBzb3VyY2UAAAA=")}},
		} {
			d, err := p.Verify(req, secrets)
			if reasonOf(t, err) == "" {
				t.Errorf("%s, %s: verified by %q", name, what, d.Secret)
			} else if len(secrets) < 2 && p.Spec().Verify.Family != "static" && !strings.Contains(err.Error(), "no live secret") {
				t.Errorf("%s, %s: %v does not say that there is no live secret", name, what, err)
			}
		}
	}
}

// TestNoEntryVerifiesByAnEmptySecret checks the same for every provider that signs with the bytes
// of its secret. An HMAC pads its key with zero bytes, so a key of one zero byte is equal to an
// empty key.
func TestNoEntryVerifiesByAnEmptySecret(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	nothing := []providers.Secret{{Name: "s"}}
	proved := 0
	for name, p := range all {
		if p.CheckSecrets(nil) == nil {
			continue // it needs none
		}
		if err := p.CheckSecrets(nothing); err == nil || !strings.Contains(err.Error(), "secret 1 (s) is empty") {
			t.Errorf("%s: an empty secret is taken: %v", name, err)
		}
		settings := map[string][]string{}
		for _, s := range p.Spec().Settings {
			if s.Required {
				settings[s.Name] = s.Example
			}
		}
		if bound, err := p.Bind(providers.Binding{Settings: settings}); err == nil {
			p = bound
		}
		zero := providers.Secret{Name: "zero", Value: []byte{0}}
		req := &providers.Request{Method: http.MethodPost, URL: "https://hooks.example/in/own", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"id":"1"}`), ReceivedAt: noon}
		if p.Sign(req, zero, "evt_1") != nil {
			continue // its secrets are decoded, or it cannot sign
		}
		if _, err := p.Verify(req, []providers.Secret{zero}); err != nil {
			continue // the body lacks what this entry signs
		}
		proved++
		if d, err := p.Verify(req, nothing); err == nil {
			t.Errorf("%s: verified by %q", name, d.Secret)
		}
	}
	if proved < 50 {
		t.Errorf("proved for %d entries only", proved)
	}
	t.Logf("proved for %d entries", proved)
}
