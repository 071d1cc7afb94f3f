package providers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

// tokenWith is a token made here, by the rules of RFC 7515.
func tokenWith(t *testing.T, algorithm, secret string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"`+algorithm+`"}`)) + "." + encode(payload)
	mac := hmac.New(map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384}[algorithm], []byte(secret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// What a token says that its source does not expect is named, once the token is
// known to be authentic.
func TestDiagnoseTokens(t *testing.T) {
	t.Parallel()
	const secret = "the signing secret"
	const body = `{"id":"1","state":"ready"}`
	digest := sha256.Sum256([]byte(body))
	now := diagnosedAt.Unix()
	netlify := map[string]any{"iss": "netlify", "sha256": hex.EncodeToString(digest[:])}
	monday := map[string]any{"aud": "https://hooks.example.com/in/monday", "exp": now + 60}
	with := func(base map[string]any, changes ...any) map[string]any {
		out := maps.Clone(base)
		for i := 0; i < len(changes); i += 2 {
			name, _ := changes[i].(string)
			if out[name] = changes[i+1]; changes[i+1] == nil {
				delete(out, name)
			}
		}
		return out
	}
	for name, test := range map[string]struct {
		provider, algorithm, key, body string
		claims                         map[string]any
		reason                         providers.Reason
		mistake                        providers.Mistake
		text                           string
	}{
		"right":            {provider: "netlify", claims: netlify},
		"algorithm":        {provider: "netlify", algorithm: "HS384", claims: netlify, reason: providers.ReasonMalformed, mistake: providers.MistakeScheme, text: "made with HS384; the source takes HS256"},
		"issuer":           {provider: "netlify", claims: with(netlify, "iss", "somebody"), mistake: providers.MistakeScheme, text: `(iss) is "somebody"; the source expects "netlify"`},
		"audience":         {provider: "monday", claims: with(monday, "aud", "https://other.example/in"), mistake: providers.MistakeScheme, text: `(aud) is "https://other.example/in"; the source expects "https://hooks.example.com/in/monday"`},
		"two":              {provider: "netlify", algorithm: "HS384", claims: with(netlify, "iss", "somebody"), reason: providers.ReasonMalformed, mistake: providers.MistakeScheme, text: `made with HS384; the source takes HS256; and the token's issuer (iss) is "somebody"`},
		"no claim":         {provider: "monday", claims: with(monday, "exp", nil), mistake: providers.MistakeScheme, text: "no claim exp"},
		"base64 digest":    {provider: "netlify", claims: with(netlify, "sha256", base64.StdEncoding.EncodeToString(digest[:])), mistake: providers.MistakeScheme, text: "in base64, not in hex"},
		"another body":     {provider: "netlify", body: body + "\n", claims: netlify, mistake: providers.MistakeBody, text: "about another body"},
		"expired":          {provider: "monday", claims: with(monday, "exp", now-700), reason: providers.ReasonStale, mistake: providers.MistakeStale, text: "stale by 700 seconds"},
		"newline":          {provider: "netlify", key: secret + "\n", claims: netlify, mistake: providers.MistakeSecret, text: "line break"},
		"another's issuer": {provider: "netlify", key: "somebody else's", claims: with(netlify, "iss", "somebody"), mistake: providers.MistakeUnknown, text: "another secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := load(t, test.provider)
			if test.provider == "monday" {
				bound, err := p.Bind(providers.Binding{Settings: map[string][]string{"audience": {"https://hooks.example.com/in/monday"}}})
				if err != nil {
					t.Fatal(err)
				}
				p = bound
			}
			key, algorithm, sent := secret, "HS256", body
			if test.key != "" {
				key = test.key
			}
			if test.algorithm != "" {
				algorithm = test.algorithm
			}
			if test.body != "" {
				sent = test.body
			}
			req := &providers.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(sent), ReceivedAt: diagnosedAt}
			req.Header.Set(p.Spec().Verify.Signature.Headers[0], tokenWith(t, algorithm, key, test.claims))
			d := p.Diagnose(req, []providers.Secret{{Name: "current", Value: []byte(secret)}}, providers.DiagnoseOptions{Work: 1 << 28})
			if test.mistake == "" {
				if d.Reason != "" {
					t.Fatalf("%+v", d)
				}
				return
			}
			reason := test.reason
			if reason == "" {
				reason = providers.ReasonMismatch
			}
			if d.Reason != reason || len(d.Findings) == 0 || d.Findings[0].Mistake != test.mistake || !strings.Contains(d.String(), test.text) {
				t.Errorf("got %s %+v\nwant %s %s %q", d.Reason, d.Findings, reason, test.mistake, test.text)
			}
			if strings.Contains(d.String(), secret) {
				t.Errorf("the diagnosis tells the secret: %s", d)
			}
		})
	}
}
