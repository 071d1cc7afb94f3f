package providers_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

const suffixed = `
docs: https://example.com
verify:
  family: hmac
  authenticates: body
  signature:
    headers: [X-Sig]
    prefix: "1/SHA256/["
    suffix: "]"
    schemes: [{ algorithm: hmac-sha256, encoding: hex }]
  signed: [body]
identity: { mode: digest }
`

// A signature in brackets is accepted only with both of them. The expected value is that of test case
// 2 of RFC 4231.
func TestSuffix(t *testing.T) {
	t.Parallel()
	p := custom(t, suffixed)
	const sum = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
	secret := providers.Secret{Name: "s", Value: []byte("Jefe")}
	for value, reason := range map[string]string{
		"1/SHA256/[" + sum + "]":                               "",
		"1/SHA256/[" + sum:                                     "malformed",
		"1/SHA256/[" + sum + "]]":                              "malformed",
		"1/SHA256/" + sum + "]":                                "malformed",
		"1/SHA256/[" + strings.Replace(sum, "5", "6", 1) + "]": "mismatch",
	} {
		req := &providers.Request{Method: http.MethodPost, Body: []byte("what do ya want for nothing?"), ReceivedAt: noon, Header: http.Header{"X-Sig": {value}}}
		_, err := p.Verify(req, []providers.Secret{secret})
		got := ""
		if refusal, refused := errors.AsType[*providers.Refusal](err); refused {
			got = string(refusal.Reason)
		}
		if got != reason {
			t.Errorf("%s: refused as %q, want %q", value, got, reason)
		}
	}
	signed := &providers.Request{Method: http.MethodPost, Body: []byte("what do ya want for nothing?"), ReceivedAt: noon, Header: http.Header{}}
	if err := p.Sign(signed, secret, ""); err != nil {
		t.Fatal(err)
	}
	if got := signed.Header.Get("X-Sig"); got != "1/SHA256/["+sum+"]" {
		t.Errorf("signed as %s", got)
	}
	list := strings.NewReplacer(`prefix: "1/SHA256/["`, `format: list`, `schemes: [{`, `assign: "="`+"\n    schemes: [{ label: v1,").Replace(suffixed)
	if _, err := catalog.Parse("custom", []byte(list)); err == nil || !strings.Contains(err.Error(), "suffix: is valid only with format value") {
		t.Errorf("a suffix in a list: %v", err)
	}
}
