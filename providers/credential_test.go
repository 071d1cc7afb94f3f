package providers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

// TestCredentialsInTheContent checks that a credential in a member of the content, in a form field
// or after a word is compared completely, and only at the configured place.
func TestCredentialsInTheContent(t *testing.T) {
	t.Parallel()
	const spec = "verify: { family: static, credential: ["
	for name, test := range map[string]struct {
		credential, media, body, header string
		reason                          providers.Reason
	}{
		"a member":                {credential: "{ scheme: json, name: auth.token }", body: `{"auth":{"token":"s3cret"}}`},
		"another value":           {credential: "{ scheme: json, name: auth.token }", body: `{"auth":{"token":"s3cret2"}}`, reason: providers.ReasonMismatch},
		"another member":          {credential: "{ scheme: json, name: auth.token }", body: `{"token":"s3cret"}`, reason: providers.ReasonUnsigned},
		"an empty member":         {credential: "{ scheme: json, name: token }", body: `{"token":""}`, reason: providers.ReasonUnsigned},
		"a member present twice":  {credential: "{ scheme: json, name: token }", body: `{"token":"s3cret","token":"s3cret"}`, reason: providers.ReasonUnsigned},
		"no document":             {credential: "{ scheme: json, name: token }", body: `s3cret`, reason: providers.ReasonUnsigned},
		"a field":                 {credential: "{ scheme: form, name: token }", media: "application/x-www-form-urlencoded", body: "a=b&token=s3cret"},
		"a field present twice":   {credential: "{ scheme: form, name: token }", media: "application/x-www-form-urlencoded", body: "token=s3cret&token=s3cret", reason: providers.ReasonUnsigned},
		"behind a word":           {credential: `{ scheme: header, header: Authorization, prefix: "Token " }`, body: "{}", header: "Token s3cret"},
		"behind another word":     {credential: `{ scheme: header, header: Authorization, prefix: "Token " }`, body: "{}", header: "Key s3cret", reason: providers.ReasonMalformed},
		"behind no word":          {credential: `{ scheme: header, header: Authorization, prefix: "Token " }`, body: "{}", header: "s3cret", reason: providers.ReasonMalformed},
		"a word and nothing else": {credential: `{ scheme: header, header: Authorization, prefix: "Token " }`, body: "{}", header: "Token ", reason: providers.ReasonMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := providers.Parse("x", []byte(spec+test.credential+"] }\nidentity: { mode: digest }\nbody: { format: any, form: true }\n"))
			if err != nil {
				t.Fatal(err)
			}
			req := &providers.Request{Method: http.MethodPost, Body: []byte(test.body), Header: http.Header{}, ReceivedAt: time.Unix(1_760_000_000, 0)}
			if test.media != "" {
				req.Header.Set("Content-Type", test.media)
			}
			if test.header != "" {
				req.Header.Set("Authorization", test.header)
			}
			_, err = p.Verify(req, []providers.Secret{{Name: "a", Value: []byte("s3cret")}})
			refusal, _ := errors.AsType[*providers.Refusal](err)
			switch {
			case test.reason == "" && err != nil, test.reason != "" && (refusal == nil || refusal.Reason != test.reason):
				t.Errorf("%v, want %q", err, test.reason)
			}
			if test.reason != "" {
				return
			}
			other := *req
			other.Header = req.Header.Clone()
			if err := p.Sign(&other, providers.Secret{Value: []byte("another")}, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Verify(&other, []providers.Secret{{Name: "a", Value: []byte("another")}}); err != nil {
				t.Errorf("what it signs is refused: %v", err)
			}
		})
	}
}

// The digest of the body in hex is signed in its place, secrets are read in base64url,
// and signatures in base64url with and without padding.
func TestDigestInPlaceOfTheBody(t *testing.T) {
	t.Parallel()
	const body = `{"id":1}`
	key := []byte("\xfb\xff\xfe key")
	p, err := providers.Parse("x", []byte(`
verify:
  family: hmac
  signature: { headers: [X-Sig], schemes: [{ algorithm: hmac-sha256, encoding: base64url-lenient, key: base64url }] }
  signed: [method, { literal: "\n" }, body-sha256-hex]
identity: { mode: digest }
`))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(body))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("POST\n" + hex.EncodeToString(digest[:])))
	sum := mac.Sum(nil)
	for _, secret := range []string{base64.URLEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key)} {
		for _, signature := range []string{base64.URLEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum)} {
			req := &providers.Request{Method: http.MethodPost, Body: []byte(body), Header: http.Header{"X-Sig": {signature}}, ReceivedAt: time.Unix(1_760_000_000, 0)}
			secrets := []providers.Secret{{Name: "a", Value: []byte(secret)}}
			if _, err := p.Verify(req, secrets); err != nil {
				t.Errorf("%s with %s: %v", signature, secret, err)
			}
			req.Body = []byte(`{"id":2}`)
			if _, err := p.Verify(req, secrets); err == nil {
				t.Errorf("%s: another body is taken", signature)
			}
		}
	}
}
