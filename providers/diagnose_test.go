package providers_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

var diagnosedAt = time.Unix(1_700_000_000, 0).UTC()

func sum256(key, message string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

func hex256(key, message string) string { return hex.EncodeToString(sum256(key, message)) }
func base64256(key, message string) string {
	return base64.StdEncoding.EncodeToString(sum256(key, message))
}

const urlSigner = `
verify:
  family: hmac
  authenticates: body
  signature:
    headers: [X-Signature]
    schemes: [{ algorithm: hmac-sha256, encoding: base64 }]
  signed: [url, body]
identity: { candidates: [{ json: id }] }
type: [{ json: type }]
windows: { retry: { for: 3d, note: assumed }, floor: 30d }
`

// Every case is a request signed here, with a mistake that people make; the
// diagnosis has to name it.
func TestDiagnoseNamesTheMistake(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	signer, err := providers.Parse("url-signer", []byte(urlSigner))
	if err != nil {
		t.Fatal(err)
	}
	cat["url-signer"] = signer
	var others []*providers.Provider
	for _, name := range []string{"github", "shopify", "slack", "stripe"} {
		others = append(others, cat[name])
	}

	const body = `{"id":"evt_1","type":"a.b","url":"https://x/y","name":"Zoë","amount":10.50,"tags":["a","b"]}`
	const phpBody = `{"id":"evt_1","type":"a.b","url":"https:\/\/x\/y","name":"Zo\u00eb","amount":10.50,"tags":["a","b"]}`
	const pythonBody = `{"id": "evt_1", "type": "a.b", "url": "https://x/y", "name": "Zoë", "amount": 10.50, "tags": ["a", "b"]}`
	const jsBody = `{"id":"evt_1","type":"a.b","url":"https://x/y","name":"Zoë","amount":10.5,"tags":["a","b"]}`
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	raw := base64.StdEncoding.EncodeToString([]byte("sixteen byte key"))
	stripe := func(key, body string, at int64) http.Header {
		return http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s", at, hex256(key, fmt.Sprintf("%d.%s", at, body)))}}
	}
	github := func(key, body string) http.Header {
		return http.Header{"X-Hub-Signature-256": {"sha256=" + hex256(key, body)}}
	}
	one := func(value string) []providers.Secret {
		return []providers.Secret{{Name: "current", Value: []byte(value)}}
	}
	now := diagnosedAt.Unix()
	sha1sum := hmac.New(sha1.New, []byte("s3cret value"))
	sha1sum.Write([]byte(body))

	for name, test := range map[string]struct {
		provider string
		header   http.Header
		body     string
		url      string
		secrets  []providers.Secret
		reason   providers.Reason
		mistake  providers.Mistake
		text     string
	}{
		"newline in the secret":   {provider: "github", header: github("s3cret value", body), secrets: one("s3cret value\n"), mistake: providers.MistakeSecret, text: "ends in a line break"},
		"newline at the sender":   {provider: "github", header: github("s3cret value\n", body), secrets: one("s3cret value"), mistake: providers.MistakeSecret, text: "the sender signs with a line break"},
		"quotation marks":         {provider: "github", header: github("s3cret value", body), secrets: one(`"s3cret value"`), mistake: providers.MistakeSecret, text: "quotation marks"},
		"space around":            {provider: "github", header: github("s3cret value", body), secrets: one(" s3cret value "), mistake: providers.MistakeSecret, text: "white space"},
		"name of the variable":    {provider: "github", header: github("s3cret value", body), secrets: one(`GITHUB_SECRET="s3cret value"`), mistake: providers.MistakeSecret, text: "name of its variable"},
		"html entities":           {provider: "github", header: github("a&b", body), secrets: one("a&amp;b"), mistake: providers.MistakeSecret, text: "HTML entities"},
		"expired":                 {provider: "github", header: github("old", body), secrets: []providers.Secret{{Name: "new", Value: []byte("new")}, {Name: "last", Value: []byte("old"), NotAfter: diagnosedAt.Add(-time.Hour)}}, mistake: providers.MistakeExpired, text: "last (until 2023-11-14T21:13:20Z)"},
		"second secret":           {provider: "github", header: github("two", body), secrets: []providers.Secret{{Name: "a", Value: []byte("one")}, {Name: "b", Value: []byte("two\n")}}, mistake: providers.MistakeSecret, text: "line break"},
		"base64 taken as text":    {provider: "standard-webhooks", header: standard(raw, body, now), secrets: one("whsec_" + raw), mistake: providers.MistakeDecoding, text: "as text, without its prefix"},
		"prefix taken as text":    {provider: "standard-webhooks", header: standard("whsec_"+raw, body, now), secrets: one("whsec_" + raw), mistake: providers.MistakeDecoding, text: "as text, as it is written"},
		"text taken as base64":    {provider: "stripe", header: stripe("sixteen byte key", body, now), secrets: one("whsec_" + raw), mistake: providers.MistakeDecoding, text: "is the base64 of"},
		"text taken as hex":       {provider: "github", header: github("\x01\x02key", body), secrets: one("01026b6579"), mistake: providers.MistakeDecoding, text: "is the hex of"},
		"compact":                 {provider: "github", header: github("s", body), body: indented.String(), secrets: one("s"), mistake: providers.MistakeBody, text: "without white space"},
		"python":                  {provider: "github", header: github("s", pythonBody), body: body, secrets: one("s"), mistake: providers.MistakeBody, text: "as Python writes it"},
		"php":                     {provider: "github", header: github("s", phpBody), body: body, secrets: one("s"), mistake: providers.MistakeBody, text: "as PHP does"},
		"php decoded":             {provider: "github", header: github("s", body), body: strings.ReplaceAll(body, "ë", `\u00eb`), secrets: one("s"), mistake: providers.MistakeBody, text: "as the letters"},
		"javascript":              {provider: "github", header: github("s", jsBody), body: pythonBody, secrets: one("s"), mistake: providers.MistakeBody, text: "as JavaScript writes them"},
		"javascript exponents":    {provider: "github", header: github("s", `{"a":1e+21,"b":1.5e-7,"c":1.5}`), body: `{"a": 1.0E21, "b": 0.00000015, "c": 1.50}`, secrets: one("s"), mistake: providers.MistakeBody, text: "as JavaScript writes them"},
		"indented":                {provider: "github", header: github("s", indented.String()+"\n"), body: body, secrets: one("s"), mistake: providers.MistakeBody, text: "indented by two spaces, with a line break"},
		"newline added":           {provider: "github", header: github("s", "not json"), body: "not json\n", secrets: one("s"), mistake: providers.MistakeBody, text: "a line break was added"},
		"crlf":                    {provider: "github", header: github("s", "a\r\nb"), body: "a\nb", secrets: one("s"), mistake: providers.MistakeBody, text: "CR LF"},
		"json string":             {provider: "github", header: github("s", `{"a":1}`), body: `"{\"a\":1}"`, secrets: one("s"), mistake: providers.MistakeBody, text: "JSON string"},
		"latin-1":                 {provider: "github", header: github("s", "na\xefve"), body: "naïve", secrets: one("s"), mistake: providers.MistakeBody, text: "Latin-1"},
		"two mistakes":            {provider: "github", header: github("s", body), body: indented.String(), secrets: one("s\n"), mistake: providers.MistakeSecret, text: "line break that is not part of it; and the body was parsed"},
		"empty body":              {provider: "github", header: github("s", body), body: " ", secrets: one("s"), mistake: providers.MistakeBody, text: "not JSON"},
		"base64 for hex":          {provider: "github", header: http.Header{"X-Hub-Signature-256": {"sha256=" + base64256("s", body)}}, secrets: one("s"), reason: providers.ReasonMalformed, mistake: providers.MistakeScheme, text: "written in base64, not hex"},
		"hex for base64":          {provider: "shopify", header: http.Header{"X-Shopify-Hmac-Sha256": {hex256("s", body)}}, secrets: one("s"), reason: providers.ReasonMalformed, mistake: providers.MistakeScheme, text: "written in hex, not base64"},
		"sha1":                    {provider: "github", header: http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sha1sum.Sum(nil))}}, secrets: one("s3cret value"), reason: providers.ReasonMalformed, mistake: providers.MistakeScheme, text: "HMAC-SHA1, not HMAC-SHA256"},
		"no prefix":               {provider: "github", header: http.Header{"X-Hub-Signature-256": {hex256("s", body)}}, secrets: one("s"), reason: providers.ReasonMalformed, mistake: providers.MistakeHeader, text: "lacks the prefix sha256="},
		"present twice":           {provider: "github", header: http.Header{"X-Hub-Signature-256": {"sha256=00", "sha256=" + hex256("s", body)}}, secrets: one("s"), reason: providers.ReasonMalformed, mistake: providers.MistakeHeader, text: "only the second matches"},
		"wrong header":            {provider: "github", header: http.Header{"X-Signature": {"sha256=" + hex256("s", body)}}, secrets: one("s"), reason: providers.ReasonUnsigned, mistake: providers.MistakeHeader, text: "is in header X-Signature, not in X-Hub-Signature-256"},
		"wrong header and prefix": {provider: "shopify", header: http.Header{"X-Other-Hmac": {hex256("s", body)}}, secrets: one("s"), reason: providers.ReasonUnsigned, mistake: providers.MistakeHeader, text: "in header X-Other-Hmac"},
		"body alone":              {provider: "stripe", header: http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s", now, hex256("s", body))}}, secrets: one("s"), mistake: providers.MistakeScheme, text: "covers the body alone"},
		"milliseconds":            {provider: "stripe", header: stripe("s", body, now*1000), secrets: one("s"), reason: providers.ReasonMalformed, mistake: providers.MistakeScheme, text: "in milliseconds, not in seconds"},
		"stale":                   {provider: "stripe", header: stripe("s", body, now-1000), secrets: one("s"), reason: providers.ReasonStale, mistake: providers.MistakeStale, text: "stale by 700 seconds"},
		"early":                   {provider: "stripe", header: stripe("s", body, now+86401), secrets: one("s"), reason: providers.ReasonEarly, mistake: providers.MistakeEarly, text: "early by 1 seconds"},
		"stale and newline":       {provider: "stripe", header: stripe("s", body, now-1000), secrets: one("s\n"), mistake: providers.MistakeSecret, text: "stale by 700 seconds"},
		"http for https":          {provider: "url-signer", header: http.Header{"X-Signature": {base64256("s", "https://h.example/in/x"+body)}}, url: "http://h.example/in/x", secrets: one("s"), mistake: providers.MistakeURL, text: "it covers https://h.example/in/x"},
		"slash":                   {provider: "url-signer", header: http.Header{"X-Signature": {base64256("s", "https://h.example/in/x/"+body)}}, url: "https://h.example/in/x", secrets: one("s"), mistake: providers.MistakeURL, text: "it covers https://h.example/in/x/"},
		"forwarded host":          {provider: "url-signer", header: http.Header{"X-Forwarded-Host": {"h.example"}, "X-Signature": {base64256("s", "https://h.example/in/x?token=hidden"+body)}}, url: "http://10.0.0.1:8080/in/x?token=hidden", secrets: one("s"), mistake: providers.MistakeURL, text: "https://h.example/in/x?..."},
		"other provider":          {provider: "github", header: stripe("s", body, now), secrets: one("s"), reason: providers.ReasonUnsigned, mistake: providers.MistakeProvider, text: "delivery of stripe"},
		"header of another":       {provider: "github", header: stripe("x", body, now), secrets: one("s"), reason: providers.ReasonUnsigned, mistake: providers.MistakeProvider, text: "Stripe-Signature"},
		"undecodable secret":      {provider: "standard-webhooks", header: standard("k", body, now), secrets: one("whsec_***"), mistake: providers.MistakeUnreadable, text: "is not base64"},
		"wrong secret":            {provider: "github", header: github("one", body), secrets: one("two"), mistake: providers.MistakeUnknown, text: "another secret"},
		"cut":                     {provider: "github", header: http.Header{"Content-Length": {"1000"}, "X-Hub-Signature-256": github("s", body)["X-Hub-Signature-256"]}, body: body[:20], secrets: one("s"), mistake: providers.MistakeBody, text: "Content-Length says 1000 and the body has 20"},
		"unsigned":                {provider: "github", header: http.Header{}, secrets: one("s"), reason: providers.ReasonUnsigned, mistake: providers.MistakeUnknown, text: "may not come from the provider"},
		"token with a newline":    {provider: "token", header: http.Header{"Authorization": {"Bearer tok_12345678901"}}, secrets: one("tok_12345678901\n"), mistake: providers.MistakeSecret, text: "line break"},
		"token without bearer":    {provider: "token", header: http.Header{"Authorization": {"tok_12345678901"}}, secrets: one("tok_12345678901"), reason: providers.ReasonMalformed, mistake: providers.MistakeHeader, text: "lacks the word Bearer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &providers.Request{Method: http.MethodPost, URL: test.url, Header: test.header.Clone(), Body: []byte(body), ReceivedAt: diagnosedAt}
			if test.body != "" {
				req.Body = []byte(test.body)
			}
			before := req.Header.Clone()
			d := cat[test.provider].Diagnose(req, test.secrets, providers.DiagnoseOptions{Work: 1 << 28, Others: others})
			reason := test.reason
			if reason == "" {
				reason = providers.ReasonMismatch
			}
			if d.Reason != reason || len(d.Findings) == 0 || d.Findings[0].Mistake != test.mistake || !strings.Contains(d.String(), test.text) {
				t.Errorf("got %s %+v\nwant %s %s %q", d.Reason, d.Findings, reason, test.mistake, test.text)
			}
			for _, secret := range test.secrets {
				if value := strings.TrimSpace(string(secret.Value)); len(value) > 3 && strings.Contains(d.String(), value) {
					t.Errorf("the diagnosis tells the secret: %s", d)
				}
			}
			for name, values := range before {
				if strings.Join(req.Header[name], "|") != strings.Join(values, "|") {
					t.Errorf("the request's header %s was changed", name)
				}
			}
		})
	}
}

// standard signs as Standard Webhooks, with the key's bytes as given.
func standard(key, body string, at int64) http.Header {
	return http.Header{
		"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {fmt.Sprint(at)},
		"Webhook-Signature": {"v1," + base64256(key, fmt.Sprintf("msg_1.%d.%s", at, body))},
	}
}

// However large or strange the request, the search ends within its work.
func TestDiagnoseIsBounded(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	secrets := make([]providers.Secret, providers.MaxSecrets)
	for i := range secrets {
		secrets[i] = providers.Secret{Name: fmt.Sprint(i), Value: []byte(fmt.Sprint("secret", i))}
	}
	req := &providers.Request{
		Method: http.MethodPost, ReceivedAt: diagnosedAt, Header: http.Header{"X-Hub-Signature-256": {"sha256=" + hex256("other", "")}},
		Body: []byte(`{"a":[` + strings.Repeat(`"ë/<",`, 1<<17) + `1]}`),
	}
	start := time.Now()
	d := cat["github"].Diagnose(req, secrets, providers.DiagnoseOptions{})
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if !strings.Contains(d.String(), "too large to try all") {
		t.Errorf("got %s", d)
	}
}

func FuzzDiagnose(f *testing.F) {
	cat := catalogtest.Load(f)
	f.Add("github", "X-Hub-Signature-256", "sha256=00", "https://x/y?z", "s", []byte(`{"a":"\ud83d\ude00"}`))
	f.Add("stripe", "Stripe-Signature", "t=1,v1=00", "http://[::1]:80/", "whsec_", []byte(`"\`))
	for _, h := range hostiles(f) {
		if len(h.body) <= 64<<10 {
			f.Add("github", "X-Hub-Signature-256", "sha256="+strings.Repeat("00", 32), "https://x/y", "s", h.body)
			f.Add("adyen", "Content-Type", h.contentType, "https://x/y", "00", h.body)
		}
	}
	f.Fuzz(func(t *testing.T, name, header, value, address, secret string, body []byte) {
		p := cat[name]
		if p == nil {
			return
		}
		req := &providers.Request{Method: http.MethodPost, URL: address, Header: http.Header{http.CanonicalHeaderKey(header): {value}}, Body: body, ReceivedAt: diagnosedAt}
		d := p.Diagnose(req, []providers.Secret{{Value: []byte(secret)}}, providers.DiagnoseOptions{Work: 1 << 20})
		if d.Reason != "" && len(d.Findings) == 0 {
			t.Error("a refusal without a finding")
		}
	})
}

// What a refusal of an unknown cause costs, in the default bounds.
func BenchmarkDiagnose(b *testing.B) {
	cat := catalogtest.Load(b)
	for _, size := range []int{2 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			body := `{"id":"evt_1","text":"` + strings.Repeat("ë/<x ", size/6) + `"}`
			req := &providers.Request{
				Method: http.MethodPost, ReceivedAt: diagnosedAt, Body: []byte(body),
				Header: http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%s", diagnosedAt.Unix(), hex256("other", ""))}},
			}
			for b.Loop() {
				cat["stripe"].Diagnose(req, []providers.Secret{{Name: "s", Value: []byte("whsec_0123")}}, providers.DiagnoseOptions{})
			}
		})
	}
}
