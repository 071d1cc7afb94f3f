package providers_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/oncegate/oncegate/providers"
)

// FuzzSignatureHeader checks that an unsigned request is refused and nothing panics, for any
// header.
func FuzzSignatureHeader(f *testing.F) {
	for _, seed := range []string{"t=1,v1=00", "v1,AA== v1a,AA==", "sha256=00", "v0=00", "Bearer x", "Basic dTpw", ",,==", "t=1700000000,v1=" + "00"} {
		f.Add(seed, seed)
	}
	loaded := map[string]*providers.Provider{}
	for _, name := range []string{"stripe", "github", "slack", "standard-webhooks", "token", "operation"} {
		loaded[name] = load(f, name)
	}
	f.Fuzz(func(t *testing.T, value, stamp string) {
		for name, p := range loaded {
			req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(`{"id":"a"}`), ReceivedAt: noon}
			for _, header := range []string{"Stripe-Signature", "X-Hub-Signature-256", "X-Slack-Signature", "Webhook-Signature", "Authorization"} {
				req.Header.Set(header, value)
			}
			req.Header.Set("X-Slack-Request-Timestamp", stamp)
			req.Header.Set("Webhook-Timestamp", stamp)
			req.Header.Set("Webhook-Id", stamp)
			secrets := []providers.Secret{{Name: "s", Value: []byte("d2hvIHdvdWxkIGd1ZXNzIHRoaXMgc2VjcmV0Pw==")}}
			if _, err := p.Verify(req, secrets); err == nil {
				t.Fatalf("%s accepted %q", name, value)
			}
		}
	})
}

// FuzzBody checks that Walk and encoding/json agree about what is JSON (up to the maximum depth),
// and that the items are inside the body.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"id":"a"}`, `{"id":1,"data":{"object":{"id":"\u00e9"}}}`, `[1,{"a":[]}]`, `{"id":"\ud83d\ude00"}`, `"`, `{"id":"\ud800x"}`, `-0.5e+1`, `{"id":"abcdefg\n\u00e9abcdefg\\","a":12345678,"b":123456789.01e-12345678}`, "{\"id\":\"abcdefg\x1fabcdefghi\"}"} {
		f.Add([]byte(seed))
	}
	stripe := load(f, "stripe")
	secret := providers.Secret{Name: "s", Value: []byte("secret")}
	f.Fuzz(func(t *testing.T, body []byte) {
		req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: body, ReceivedAt: noon}
		if err := stripe.Sign(req, secret, ""); err != nil {
			t.Fatal(err)
		}
		d, err := stripe.Verify(req, []providers.Secret{secret})
		if err != nil {
			t.Fatal(err)
		}
		item := d.Items[0]
		if item.Offset != 0 || item.Length != len(body) || (item.EventID == "") == (item.Unusable == "") {
			t.Fatalf("%+v", item)
		}
		if item.Unusable == "body: not JSON" && json.Valid(body) || item.Unusable == "" && !json.Valid(body) {
			t.Fatalf("%s, but encoding/json says valid=%v", item.Unusable, json.Valid(body))
		}
		if item.Unusable == "" {
			var object struct {
				ID any `json:"id"`
			}
			if json.Unmarshal(body, &object) == nil {
				if s, ok := object.ID.(string); ok && s != item.EventID && utf8.Valid(body) && !differsInCase(body) {
					t.Fatalf("id %q, encoding/json says %q", item.EventID, s)
				}
			}
		}
		canonical, ok := stripe.Canonical(body)
		if !ok {
			return
		}
		again, ok := stripe.Canonical(canonical)
		if !ok || string(again) != string(canonical) {
			t.Fatalf("canonical form of the canonical form: %s and %s", canonical, again)
		}
		if d := stripe.Differences(body, canonical); len(d) != 0 {
			t.Fatalf("differs from its canonical form in %v", d)
		}
	})
}

// differsInCase reports a second key that encoding/json takes for id.
func differsInCase(body []byte) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return false
	}
	for _, key := range []string{"ID", "Id", "iD"} {
		if _, ok := object[key]; ok {
			return true
		}
	}
	return false
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("verify: {family: hmac"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = providers.Parse("fuzz", text)
	})
}
