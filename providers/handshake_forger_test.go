package providers_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// TestHandshakesSignNoDelivery checks that no answer of a handshake verifies as a delivery, for any
// challenge and any place of the answer's texts in the delivery.
func TestHandshakesSignNoDelivery(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(loaded)) {
		p := loaded[name]
		if !shakes(p) {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forgerOf(t, p)
			for _, body := range forgedBodies {
				if req := f.attack(body, ""); req != nil && !p.Unproved() {
					t.Errorf("recorded: %s %v %s", req.URL, req.Header, req.Body)
				}
			}
			if f.answers == 0 || f.deliveries == 0 {
				t.Errorf("%d answers, %d deliveries", f.answers, f.deliveries)
			}
			t.Logf("%d answers, %d deliveries", f.answers, f.deliveries)
		})
	}
	if tried < 20 {
		t.Errorf("only %d entries have handshakes", tried)
	}
}

// Neither does any other challenge that a fuzzer finds, whose signed form is a body's.
func FuzzHandshakeForger(f *testing.F) {
	loaded := catalogtest.Load(f)
	var forgers []*forger
	for _, name := range []string{"zoom", "x", "braintree", "monday", "azure-event-grid", "slack", "twitch"} {
		forgers = append(forgers, forgerOf(f, loaded[name]))
	}
	for _, spec := range []string{signingCustom("[timestamp, body]"), signingCustom("[{ literal: 'a.' }, body]"), signingCustom("[body, method]")} {
		p := custom(f, spec)
		forgers = append(forgers, &forger{endpoint: p, provider: p, secrets: []providers.Secret{{Name: "s", Value: []byte("secret")}}, address: "https://hooks.example.com/in/custom"})
	}
	for _, body := range forgedBodies {
		f.Add(body, body)
		f.Add(body, "")
		for _, forger := range forgers {
			for _, d := range forger.forge(body) {
				f.Add(body, d.message)
			}
		}
	}
	f.Fuzz(func(t *testing.T, body, challenge string) {
		for _, f := range forgers {
			if req := f.attack(body, challenge); req != nil {
				t.Fatalf("%s: recorded: %s %v %s", f.provider.Name(), req.URL, req.Header, req.Body)
			}
		}
	})
}

// signingCustom is a custom provider whose handshake signs what it is given.
func signingCustom(signed string) string {
	return `
verify:
  family: hmac
  signature: { headers: [X-Signature], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: ` + signed + `
  timestamp: { from: header, header: X-Time, unsigned: true }
identity: { mode: digest }
handshakes:
  - name: challenge
    verify: signature
    match: [{ json: challenge }]
    respond: { body: "{{hmac_hex json challenge}}" }
`
}

// Custom providers in all combinations of what they sign, how, and for whom: each is
// refused when it is loaded, or no answer of it verifies as a delivery.
func TestCustomHandshakesSignNoDelivery(t *testing.T) {
	t.Parallel()
	loaded, refused := 0, 0
	combine(t, func(name, spec string) {
		p, err := providers.Parse("custom", []byte(spec))
		if err != nil {
			refused++
			return
		}
		loaded++
		f := &forger{endpoint: p, provider: p, secrets: []providers.Secret{{Name: "s", Value: []byte("secret")}}, address: "https://hooks.example.com/in/custom"}
		for _, body := range forgedBodies[:5] {
			if req := f.attack(body, ""); req != nil {
				t.Errorf("%s: recorded: %s %v %s\n%s", name, req.URL, req.Header, req.Body, spec)
				return
			}
		}
		if f.answers == 0 {
			t.Errorf("%s: loads and answers nothing\n%s", name, spec)
		}
	})
	if loaded < 10 || refused < 10 {
		t.Errorf("%d loaded, %d refused", loaded, refused)
	}
	t.Logf("%d loaded, %d refused", loaded, refused)
}

// combine makes custom providers whose handshakes sign.
func combine(t *testing.T, each func(name, spec string)) {
	t.Helper()
	families := map[string]string{
		"static": "family: static\n  credential: [{ scheme: header, header: X-Signature }]",
		"jwt":    "family: jwt\n  authenticates: origin\n  signature: { headers: [Authorization] }\n  options: { algorithms: [HS256], prefix: Bearer }",
	}
	for name, signed := range map[string]string{
		"body": "[body]", "stamped": "[{ literal: 'v0:' }, timestamp, { literal: ':' }, body]", "time first": "[timestamp, body]", "url": "[url, body]",
		"base64": "[body-base64]", "digest": "[body-sha256]", "document": "[document]", "part": "[{ json: id }]", "sorted": "[form-sorted]", "literal last": "[body, { literal: '.v1' }]",
	} {
		families[name] = "family: hmac\n  signature: { headers: [X-Signature], schemes: [{ algorithm: hmac-sha256, encoding: base64url }] }\n  signed: " + signed +
			"\n  timestamp: { from: header, header: X-Time, unsigned: " + strconv.FormatBool(!strings.Contains(signed, "timestamp")) + " }"
		if name == "part" {
			families[name] += "\n  authenticates: part"
		}
	}
	for family, verify := range families {
		for _, body := range []string{"{ format: json }", "{ format: any }", "{ form: true, form_json: payload }", "{ multipart: true }"} {
			for how, at := range map[string]string{"signature": "json", "signature ": "header", "query-signature": "query", "none": "header", "open": "json", "token, token: { query: t }": "query"} {
				method, name := map[string]string{"query": "GET"}[at], map[string]string{"header": "X-Challenge"}[at]
				each(strings.Join([]string{family, body, how, at}, ", "), "verify:\n  "+verify+"\nbody: "+body+"\nidentity: { mode: digest }\nhandshakes:\n  - { name: c, method: "+cmpOr(method, "POST")+
					", verify: "+how+", match: [{ "+at+": "+cmpOr(name, "challenge")+" }], respond: { body: '{{hmac_base64 "+at+" "+cmpOr(name, "challenge")+"}}' } }\n")
			}
		}
	}
}

// careless is an endpoint with a mistake.
type careless struct {
	*providers.Provider
	answer func(req *providers.Request, secret []byte) string
	verify func(p *providers.Provider, req *providers.Request, secrets []providers.Secret) error
}

func (c careless) Handshake(req *providers.Request, secrets []providers.Secret) (providers.Reply, bool, error) {
	text := c.answer(req, secrets[0].Value)
	return providers.Reply{Status: http.StatusOK, Body: []byte(text)}, text != "", nil
}

func (c careless) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	if c.verify != nil {
		return &providers.Delivery{}, c.verify(c.Provider, req, secrets)
	}
	return c.Provider.Verify(req, secrets)
}

// The forger must find out each of these.
func TestForgerFindsOracles(t *testing.T) {
	t.Parallel()
	mac := func(secret []byte, text string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	asked := func(req *providers.Request, name string) string {
		u, err := url.Parse(req.URL)
		if err != nil || req.Method != http.MethodGet {
			return ""
		}
		return u.Query().Get(name)
	}
	unshaken := func(name string) *providers.Provider { // the entry, which knows of no handshake
		p, err := catalog.Parse("custom", []byte("extends: "+name+"\nhandshakes: []\n"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := func(req *providers.Request) string {
		var body struct{ Payload struct{ PlainToken string } }
		_ = json.Unmarshal(req.Body, &body)
		return body.Payload.PlainToken
	}
	for name, c := range map[string]struct {
		provider string
		exhibit  careless
	}{
		"signs every crc_token": {"x", careless{Provider: unshaken("x"), answer: func(req *providers.Request, secret []byte) string {
			if token := asked(req, "crc_token"); token != "" {
				return `{"response_token":"sha256=` + base64.StdEncoding.EncodeToString(mac(secret, token)) + `"}`
			}
			return ""
		}}},
		"signs every plainToken": {"zoom", careless{Provider: unshaken("zoom"), answer: func(req *providers.Request, secret []byte) string {
			if token := plain(req); token != "" {
				return `{"plainToken":"x","encryptedToken":"` + hex.EncodeToString(mac(secret, token)) + `"}`
			}
			return ""
		}}},
		"takes a signed challenge for a delivery": {"braintree", careless{
			answer: func(req *providers.Request, secret []byte) string {
				challenge := asked(req, "bt_challenge")
				if !regexp.MustCompile(`^[a-f0-9]{20,32}$`).MatchString(challenge) {
					return ""
				}
				key := sha1.Sum(secret)
				h := hmac.New(sha1.New, key[:])
				h.Write([]byte(challenge))
				return "integration_public_key|" + hex.EncodeToString(h.Sum(nil))
			},
			verify: func(_ *providers.Provider, req *providers.Request, secrets []providers.Secret) error {
				form, err := url.ParseQuery(string(req.Body))
				key := sha1.Sum(secrets[0].Value)
				h := hmac.New(sha1.New, key[:])
				h.Write([]byte(form.Get("bt_payload")))
				if err != nil || !strings.HasSuffix(form.Get("bt_signature"), "|"+hex.EncodeToString(h.Sum(nil))) {
					return errors.New("mismatch")
				}
				return nil
			},
		}},
		"signs tokens": {"monday", careless{answer: func(req *providers.Request, secret []byte) string {
			var body struct{ Challenge string }
			_ = json.Unmarshal(req.Body, &body)
			if body.Challenge == "" || bytes.Contains(req.Body, []byte("event")) {
				return ""
			}
			return hex.EncodeToString(mac(secret, body.Challenge))
		}}},
		"says its credential": {"okta", careless{answer: func(req *providers.Request, secret []byte) string {
			if req.Header.Get("X-Okta-Verification-Challenge") == "" {
				return ""
			}
			return `{"verification":"` + string(secret) + `"}`
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := forgerOf(t, load(t, c.provider))
			if c.exhibit.Provider == nil {
				c.exhibit.Provider = f.provider
			}
			f.endpoint = c.exhibit
			for _, body := range forgedBodies {
				if f.attack(body, "") != nil {
					return
				}
			}
			t.Errorf("not found out, in %d deliveries", f.deliveries)
		})
	}
}
