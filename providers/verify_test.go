package providers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
)

func reasonOf(t *testing.T, err error) providers.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var refusal *providers.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("%T is not a refusal", err)
	}
	return refusal.Reason
}

func mac(key, message string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(message))
	return h.Sum(nil)
}

// stripeSigned returns Stripe's signature of body at a time, in the given notation.
func stripeSigned(stamp, body string) string {
	return hex.EncodeToString(mac("k", stamp+"."+body))
}

func TestStripeHeader(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	const body = `{"id":"evt_1"}`
	now := strconv.FormatInt(noon.Unix(), 10)
	right := stripeSigned(now, body)
	zeros := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		header string
		want   providers.Reason
	}{
		"right":                   {"t=" + now + ",v1=" + right, ""},
		"upper case":              {"t=" + now + ",v1=" + strings.ToUpper(right), ""},
		"spaces":                  {"t=" + now + ", v1=" + right, ""},
		"unknown before":          {"v0=" + zeros + ",t=" + now + ",x,v1=" + right, ""},
		"eighth of eight":         {"t=" + now + strings.Repeat(",v1="+zeros, 7) + ",v1=" + right, ""},
		"ninth":                   {"t=" + now + strings.Repeat(",v1="+zeros, 8) + ",v1=" + right, providers.ReasonMalformed},
		"unreadable beside right": {"t=" + now + ",v1=zz,v1=" + right, ""},
		"only unreadable":         {"t=" + now + ",v1=zz", providers.ReasonMalformed},
		"one byte short":          {"t=" + now + ",v1=" + right[:62], providers.ReasonMalformed},
		"one byte long":           {"t=" + now + ",v1=" + right + "00", providers.ReasonMalformed},
		"empty signature":         {"t=" + now + ",v1=", providers.ReasonMalformed},
		"wrong":                   {"t=" + now + ",v1=" + zeros, providers.ReasonMismatch},
		"no time":                 {"v1=" + right, providers.ReasonMalformed},
		"two times":               {"t=" + now + ",t=" + now + ",v1=" + right, providers.ReasonMalformed},
		"leading zero":            {"t=0" + now + ",v1=" + stripeSigned("0"+now, body), providers.ReasonMalformed},
		"plus":                    {"t=+" + now + ",v1=" + stripeSigned("+"+now, body), providers.ReasonMalformed},
		"negative":                {"t=-1,v1=" + stripeSigned("-1", body), providers.ReasonMalformed},
		"fraction":                {"t=" + now + ".0,v1=" + stripeSigned(now+".0", body), providers.ReasonMalformed},
		"beyond int64":            {"t=99999999999999999999,v1=" + stripeSigned("99999999999999999999", body), providers.ReasonMalformed},
		"year 292277026596":       {"t=9223372036854775807,v1=" + stripeSigned("9223372036854775807", body), providers.ReasonMalformed},
		"epoch":                   {"t=0,v1=" + stripeSigned("0", body), providers.ReasonStale},
		"too long":                {strings.Repeat("x=y,", 3000) + "t=" + now + ",v1=" + right, providers.ReasonMalformed},
	} {
		req := &providers.Request{Method: http.MethodPost, Body: []byte(body), ReceivedAt: noon, Header: http.Header{}}
		req.Header.Set("Stripe-Signature", c.header)
		_, err := stripe.Verify(req, []providers.Secret{{Name: "s", Value: []byte("k")}})
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// TestStaleOnlyWhenAuthentic checks that a wrong signature is a mismatch at any time, and that
// stale is only the reason for an authentic request.
func TestStaleOnlyWhenAuthentic(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	old := strconv.FormatInt(noon.Add(-time.Hour).Unix(), 10)
	for signature, want := range map[string]providers.Reason{
		stripeSigned(old, "{}"): providers.ReasonStale,
		strings.Repeat("0", 64): providers.ReasonMismatch,
	} {
		req := &providers.Request{Method: http.MethodPost, Body: []byte("{}"), ReceivedAt: noon, Header: http.Header{}}
		req.Header.Set("Stripe-Signature", "t="+old+",v1="+signature)
		_, err := stripe.Verify(req, []providers.Secret{{Name: "s", Value: []byte("k")}})
		if got := reasonOf(t, err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSecretsAreBounded checks that the work for one request is limited even if the configuration
// has too many secrets.
func TestSecretsAreBounded(t *testing.T) {
	t.Parallel()
	stripe := load(t, "stripe")
	secrets := make([]providers.Secret, 9)
	for i := range secrets {
		secrets[i] = providers.Secret{Name: strconv.Itoa(i), Value: []byte("wrong" + strconv.Itoa(i))}
	}
	secrets[8].Value = []byte("k")
	now := strconv.FormatInt(noon.Unix(), 10)
	req := &providers.Request{Method: http.MethodPost, Body: []byte("{}"), ReceivedAt: noon, Header: http.Header{}}
	req.Header.Set("Stripe-Signature", "t="+now+",v1="+stripeSigned(now, "{}"))
	if _, err := stripe.Verify(req, secrets); reasonOf(t, err) != providers.ReasonMismatch {
		t.Errorf("the ninth secret: %v", err)
	}
	secrets[0].NotAfter = noon.Add(-time.Second)
	if d, err := stripe.Verify(req, secrets); err != nil || d.Secret != "8" {
		t.Errorf("an expired secret takes the place of a live one: %v", err)
	}
}

func TestStandardWebhooksHeader(t *testing.T) {
	t.Parallel()
	p := load(t, "standard-webhooks")
	key := "0123456789abcdef0123456789abcdef"
	now := strconv.FormatInt(noon.Unix(), 10)
	sum := base64.StdEncoding.EncodeToString(mac(key, "msg_1."+now+".{}"))
	public := "whpk_" + base64.StdEncoding.EncodeToString([]byte(key))
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))
	for name, c := range map[string]struct {
		secret, header string
		want           providers.Reason
	}{
		"right":                   {secret, "v1," + sum, ""},
		"without padding":         {secret, "v1," + strings.TrimRight(sum, "="), ""},
		"secret without padding":  {strings.TrimRight(secret, "="), "v1," + sum, ""},
		"line break inside":       {secret, "v1," + sum[:10] + "\n" + sum[10:], providers.ReasonMalformed},
		"url alphabet":            {secret, "v1," + strings.Repeat("_", 43) + "=", providers.ReasonMalformed},
		"as another version":      {secret, "v1a," + sum, providers.ReasonMalformed},
		"public key as HMAC key":  {public, "v1," + sum, providers.ReasonMismatch},
		"without a version":       {secret, sum, providers.ReasonMalformed},
		"wrong length of ed25519": {public, "v1a," + strings.Repeat("A", 84), providers.ReasonMalformed},
	} {
		req := &providers.Request{Method: http.MethodPost, Body: []byte("{}"), ReceivedAt: noon, Header: http.Header{}}
		req.Header.Set("webhook-id", "msg_1")
		req.Header.Set("webhook-timestamp", now)
		req.Header.Set("webhook-signature", c.header)
		_, err := p.Verify(req, []providers.Secret{{Name: "s", Value: []byte(c.secret)}})
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	token := load(t, "token")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pass"))
	for name, c := range map[string]struct {
		secret, header, value string
		want                  providers.Reason
	}{
		"bearer":           {"abc", "Authorization", "Bearer abc", ""},
		"lower case":       {"abc", "Authorization", "bearer abc", ""},
		"basic":            {"user:pass", "Authorization", basic, ""},
		"header":           {"abc", "X-Webhook-Token", "abc", ""},
		"wrong case":       {"abc", "X-Webhook-Token", "Abc", providers.ReasonMismatch},
		"longer":           {"abc", "X-Webhook-Token", "abcd", providers.ReasonMismatch},
		"prefix":           {"abc", "X-Webhook-Token", "ab", providers.ReasonMismatch},
		"no colon":         {"user", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("user")), providers.ReasonMalformed},
		"not base64":       {"user:pass", "Authorization", "Basic !!!", providers.ReasonMalformed},
		"empty bearer":     {"abc", "Authorization", "Bearer ", providers.ReasonMalformed},
		"another scheme":   {"abc", "Authorization", "Digest abc", providers.ReasonMalformed},
		"nothing":          {"abc", "X-Other", "abc", providers.ReasonUnsigned},
		"no scheme at all": {"abc", "Authorization", "abc", providers.ReasonMalformed},
	} {
		req := &providers.Request{Method: http.MethodPost, Body: []byte(`{"id":"1"}`), ReceivedAt: noon, Header: http.Header{}}
		req.Header.Set(c.header, c.value)
		_, err := token.Verify(req, []providers.Secret{{Name: "s", Value: []byte(c.secret)}})
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// A key of one scheme is none of another, even where any text would do as a key.
func TestKeysOfOtherSchemes(t *testing.T) {
	t.Parallel()
	p := custom(t, `
extends: standard-webhooks
verify:
  signature:
    schemes:
      - { label: v1, algorithm: hmac-sha256, encoding: base64 }
      - { label: v1a, algorithm: ed25519, encoding: base64, key: base64, key_prefix: whpk_, key_prefix_required: true, private_prefix: whsk_ }
`)
	now := strconv.FormatInt(noon.Unix(), 10)
	public := "whpk_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	private := "whsk_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("0123456789abcdef", 4)))
	for _, secret := range []string{public, private} {
		req := &providers.Request{Method: http.MethodPost, Body: []byte("{}"), ReceivedAt: noon, Header: http.Header{}}
		req.Header.Set("webhook-id", "msg_1")
		req.Header.Set("webhook-timestamp", now)
		req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac(secret, "msg_1."+now+".{}")))
		_, err := p.Verify(req, []providers.Secret{{Name: "s", Value: []byte(secret)}})
		if got := reasonOf(t, err); got != providers.ReasonMismatch {
			t.Errorf("an HMAC under %.5s...: %q", secret, got)
		}
	}
	if err := p.CheckSecrets([]providers.Secret{{Name: "s", Value: []byte(private)}}); err == nil {
		t.Error("a private key is taken by the receiver")
	}
}
