package providers_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// unsigned returns a token whose signature nobody could verify. [providers.Provider.Document] is
// only called with bodies that were verified before.
func unsigned(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(claims)) + ".AAAA"
}

// TestDocument checks which document expressions see for a body, and that any other body is its own
// document.
func TestDocument(t *testing.T) {
	t.Parallel()
	apple := `{"signedPayload":"` + unsigned(`{"id":9007199254740993,"data":{"signedTransactionInfo":"`+unsigned(`{"price":1.10}`)+`","signedRenewalInfo":"none"}}`) + `"}`
	cases := map[string]struct{ provider, body, want string }{
		"token in a member":       {"apple-app-store", apple, `{"id":9007199254740993,"data":{"signedTransactionInfo":{"price":1.10},"signedRenewalInfo":"none"}}`},
		"no token":                {"apple-app-store", `{"signedPayload":"a.b.c"}`, `{"signedPayload":"a.b.c"}`},
		"token twice":             {"apple-app-store", `{"signedPayload":"` + unsigned(`{"a":1}`) + `","signedPayload":"` + unsigned(`{"a":2}`) + `"}`, ""},
		"the body is the token":   {"kinde", unsigned(`{"type":"user.updated"}`) + "\n", `{"type":"user.updated"}`},
		"claims that are no JSON": {"kinde", unsigned(`<event/>`), ""},
		"JSON in JSON":            {"wix", unsigned(`{"data":"{\"data\":\"{\\\"a\\\":[1]}\",\"eventType\":\"x\"}","iat":1}`), `{"data":{"data":{"a":[1]},"eventType":"x"},"iat":1}`},
		"a text that is no JSON":  {"wix", unsigned(`{"data":"hello"}`), `{"data":"hello"}`},
		"form field":              {"dropbox-sign", url.Values{"json": {`{"event":{"event_type":"x"}}`}, "other": {"1"}}.Encode(), `{"event":{"event_type":"x"}}`},
		"multipart field":         {"dropbox-sign", "--b\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{\"event\":{}}\r\n--b--\r\n", `{"event":{}}`},
		"field twice":             {"dropbox-sign", url.Values{"json": {`{"a":1}`, `{"a":2}`}}.Encode(), ""},
		"form without the field":  {"dropbox-sign", "other=1", ""},
		"JSON":                    {"stripe", `{"id":"evt_1"}`, `{"id":"evt_1"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := loaded(t, c.provider)
			if c.want == "" {
				c.want = c.body
			}
			if got := string(p.Document([]byte(c.body))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if wraps := c.provider != "stripe"; p.Wraps() != wraps {
				t.Errorf("Wraps is %v, want %v", p.Wraps(), wraps)
			}
		})
	}
}

func loaded(t *testing.T, name string) *providers.Provider {
	t.Helper()
	p := new(catalog.Lazy).Provider(name)
	if p == nil {
		t.Fatalf("%s is not in the catalogue", name)
	}
	return p
}

// TestSignedAgain requires that a notification which Apple signs again is the same payload, and one
// whose claims differ is not.
func TestSignedAgain(t *testing.T) {
	t.Parallel()
	p := loaded(t, "apple-app-store")
	body := func(claims string) []byte { return []byte(`{"signedPayload":"` + unsigned(claims) + `"}`) }
	notice := func(at, product string) []byte {
		return body(`{"notificationUUID":"n","signedDate":` + at + `,"data":{"signedTransactionInfo":"` + unsigned(`{"signedDate":`+at+`,"productId":"`+product+`"}`) + `"}}`)
	}
	if got := p.Differences(notice("1", "monthly"), notice("2", "monthly")); len(got) != 0 {
		t.Errorf("signed again: differs in %v", got)
	}
	if got := p.Differences(notice("1", "monthly"), notice("1", "yearly")); len(got) != 1 || got[0] != "data.signedTransactionInfo.productId" {
		t.Errorf("another product: differs in %v", got)
	}
	first, ok := p.Canonical(notice("1", "monthly"))
	again, okAgain := p.Canonical(notice("2", "monthly"))
	if !ok || !okAgain || string(first) != string(again) {
		t.Errorf("canonical forms: %s and %s", first, again)
	}
}

// TestTokenIsTheEvent requires that id, type and time come from the verified claims, although the
// body has members of the same names beside the token.
func TestTokenIsTheEvent(t *testing.T) {
	t.Parallel()
	vectors, err := providertest.Vectors(testdata.Files, "apple-app-store")
	if err != nil {
		t.Fatal(err)
	}
	v := &vectors[0]
	p, err := v.Bind(loaded(t, "apple-app-store"))
	if err != nil {
		t.Fatal(err)
	}
	req := v.Request()
	req.Body = []byte(`{"notificationUUID":"forged","notificationType":"REFUND","signedDate":1,` + strings.TrimPrefix(v.Body, "{"))
	d, err := p.Verify(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The values are those of Apple's own test.
	item := d.Items[0]
	if len(d.Items) != 1 || item.EventID != "9ad56bd2-0bc6-42e0-af24-fd996d87a1e6" || item.Type != "TEST" || item.OccurredAt.UnixMilli() != 1681314324000 {
		t.Errorf("%+v", item)
	}
	if item.Offset != 0 || item.Length != len(req.Body) {
		t.Errorf("the event is %d bytes from %d, not the whole body", item.Length, item.Offset)
	}
}

// TestContentTypeDecidesNothing requires that a token is read from its place in the body whatever
// the Content-Type says, because no signature covers that header.
func TestContentTypeDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kinde", "wix", "apple-app-store"} {
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		v := &vectors[0]
		p, err := v.Bind(loaded(t, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Verify(v.Request(), v.Secrets())
		if err != nil {
			t.Fatal(err)
		}
		for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			req := v.Request()
			req.Header = http.Header{"Content-Type": {media}}
			got, err := p.Verify(req, v.Secrets())
			if err != nil || len(got.Items) != 1 || got.Items[0] != want.Items[0] {
				t.Errorf("%s as %q: %+v, %v", name, media, got, err)
			}
		}
	}
}

// TestBodyTokenSettings requires a precise refusal of a configuration that could verify nothing.
func TestBodyTokenSettings(t *testing.T) {
	t.Parallel()
	private := vectorOf(t, "wix").SignSecret
	cases := map[string]struct {
		provider string
		settings map[string][]string
		secrets  []string
		want     string
	}{
		"no bundle id":      {"apple-app-store", nil, nil, "setting bundle_id is missing"},
		"root is no PEM":    {"apple-app-store", map[string][]string{"bundle_id": {"a"}, "roots": {"MIIC"}}, nil, "setting roots contains no certificate"},
		"no key set":        {"kinde", nil, nil, "setting keys_url is missing"},
		"key set over http": {"kinde", map[string][]string{"keys_url": {"http://acme.kinde.com/jwks"}}, nil, "not an https address"},
		"jwks elsewhere":    {"truelayer", map[string][]string{"keys_url": {"https://example.com/jwks"}}, nil, "keys_url is not at webhooks.truelayer.com"},
		"no public key":     {"wix", nil, nil, "needs at least one secret"},
		"key without PEM":   {"wix", nil, []string{"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A"}, "is not a public key in PEM"},
		"private key":       {"wix", nil, []string{private}, "is a private key; the source needs the public one"},
		"two keys in one":   {"wix", nil, []string{vectorOf(t, "wix").Secret + vectorOf(t, "wix").Secret}, "contains more than one public key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := loaded(t, c.provider)
			err := p.CheckSettings(c.settings)
			if err == nil {
				var secrets []providers.Secret
				for _, value := range c.secrets {
					secrets = append(secrets, providers.Secret{Name: "s", Value: []byte(value)})
				}
				err = p.CheckSecrets(secrets)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func vectorOf(t *testing.T, name string) *providertest.Vector {
	t.Helper()
	vectors, err := providertest.Vectors(testdata.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	return &vectors[0]
}
