package providers_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
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
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// endpoint is what a forger sees of a source: it answers handshakes and takes deliveries.
type endpoint interface {
	Handshake(req *providers.Request, secrets []providers.Secret) (providers.Reply, bool, error)
	Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error)
}

// forger attacks one endpoint: it has handshakes answered, and builds deliveries from
// what the answers disclose. It writes the signed form of a delivery by itself, from the
// spec, so that it agrees with the verification only where both are right.
type forger struct {
	endpoint
	provider *providers.Provider // bound; signs the handshakes that must be authentic
	secrets  []providers.Secret
	signing  providers.Secret // what the sender signs with, where that is not the first secret
	settings map[string][]string
	address  string

	answers    int // handshakes that were answered
	deliveries int // deliveries that were tried
}

// forgedBodies are what a forger would like to have recorded.
var forgedBodies = []string{
	`{"id":"evt_forged","event_id":"evt_forged","type":"forged","event":"forged","payload":{"object":{"id":1}},"event_ts":1777896000000}`,
	`[{"id":"evt_forged","type":"forged"}]`, ` {"id":"evt_forged"}`, `"evt_forged"`, `12345678901234567890`, `true`,
	`id=evt_forged&type=forged`, `<notification><kind>check</kind><timestamp>2026-05-04T12:00:00Z</timestamp></notification>`, `evt_forged`, ``,
}

// forged is a delivery without its signature, and what a signature would cover.
type forged struct {
	req     providers.Request
	spec    *providers.VerifySpec
	stamp   string
	message string
}

// forge builds the deliveries that bring the body: one for each way in which the
// provider verifies, and for forms and queries the ones that these would have.
func (f *forger) forge(body string) []forged {
	specs := []*providers.VerifySpec{&f.provider.Spec().Verify}
	for i := range f.provider.Spec().Modes {
		specs = append(specs, &f.provider.Spec().Modes[i].Verify)
	}
	var out []forged
	for i, v := range specs {
		req := providers.Request{Method: http.MethodPost, URL: f.address, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), ReceivedAt: noon}
		if strings.Contains(body, "=") && !strings.HasPrefix(body, "<") {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for _, m := range v.Require {
			req.Header.Set(m.Header, cmpOr(m.Equals, "1"))
		}
		if i > 0 {
			for _, m := range f.provider.Spec().Modes[i-1].When {
				req.Header.Set(m.Header, cmpOr(m.Equals, "1"))
			}
		}
		for name, value := range f.provider.Spec().Example.Headers {
			req.Header.Set(name, value)
		}
		stamp := timeAs(v.Timestamp.Unit)
		for _, name := range v.Timestamp.Header {
			req.Header.Set(name, stamp)
		}
		out = append(out, forged{req, v, stamp, message(&req, v, stamp)})
	}
	return out
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

func timeAs(unit string) string {
	switch unit {
	case "ms":
		return strconv.FormatInt(noon.UnixMilli(), 10)
	case "us":
		return strconv.FormatInt(noon.UnixMicro(), 10)
	case "ns":
		return strconv.FormatInt(noon.UnixNano(), 10)
	case "rfc3339", "datetime":
		return noon.Format("2006-01-02T15:04:05Z")
	}
	return strconv.FormatInt(noon.Unix(), 10)
}

// message is the text that the signature of a delivery covers.
func message(req *providers.Request, v *providers.VerifySpec, stamp string) string {
	var b strings.Builder
	for i := range v.Signed {
		part := &v.Signed[i]
		switch {
		case part.Word == "body", part.Word == "document", part.Word == "form-sorted":
			b.Write(req.Body)
		case part.Word == "body-base64":
			b.WriteString(base64.StdEncoding.EncodeToString(req.Body))
		case part.Word == "body-sha256":
			sum := sha256.Sum256(req.Body)
			b.Write(sum[:])
		case part.Word == "timestamp":
			b.WriteString(stamp)
		case part.Word == "method":
			b.WriteString(req.Method)
		case part.Word == "url":
			b.WriteString(req.URL)
		case part.Word == "path", part.Word == "query":
			if u, err := url.Parse(req.URL); err == nil {
				b.WriteString(map[string]string{"path": u.EscapedPath(), "query": u.RawQuery}[part.Word])
			}
		case part.Literal != "":
			b.WriteString(part.Literal)
		case len(part.Header) > 0:
			if req.Header.Get(part.Header[0]) == "" {
				req.Header.Set(part.Header[0], "evt_forged")
			}
			b.WriteString(req.Header.Get(part.Header[0]))
		case part.JSON != "":
			var document map[string]any
			_ = json.Unmarshal(req.Body, &document)
			text, _ := document[part.JSON].(string)
			b.WriteString(text)
		}
	}
	return b.String()
}

// challenges are what the forger has signed for a delivery: its signed form, as it
// stands and in whatever a handshake or a header might undo or take off.
func (d *forged) challenges() []string {
	m, body := d.message, string(d.req.Body)
	out := []string{
		m, body, strings.TrimSpace(m), m + "\n", url.QueryEscape(m), base64.StdEncoding.EncodeToString([]byte(m)), base64.StdEncoding.EncodeToString([]byte(body)),
		base64.StdEncoding.EncodeToString([]byte(body)) + "\n", hex.EncodeToString([]byte(m)), d.stamp + ":" + body, d.stamp + "." + body, "0123456789abcdef0123456789abcdef",
		// A token of its own: family jwt.
		base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1777899600,"aud":"`+d.req.URL+`"}`)),
	}
	return out
}

// shake has every handshake of the endpoint answered for the challenge, as far as its
// sender can, and gives what the answers and their requests hold.
func (f *forger) shake(challenge string) []string {
	var seen []string
	answered := func(req *providers.Request) {
		reply, ok, err := f.Handshake(req, f.secrets)
		if !ok || err != nil {
			return
		}
		f.answers++
		seen = append(seen, string(reply.Body))
		for _, values := range reply.Header {
			seen = append(seen, values...)
		}
	}
	for i := range f.provider.Spec().Handshakes {
		if req, ok := f.handshake(&f.provider.Spec().Handshakes[i], challenge); ok {
			answered(req)
		}
	}
	// The handshakes of the schemes in Go.
	header := http.Header{"Content-Type": {"application/json"}, "Aeg-Event-Type": {"SubscriptionValidation"}}
	quoted, _ := json.Marshal(challenge)
	event := `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":` + string(quoted) + `}}]`
	answered(&providers.Request{Method: http.MethodGet, URL: f.address + "?bt_challenge=" + url.QueryEscape(challenge), Header: http.Header{}, ReceivedAt: noon})
	answered(&providers.Request{Method: http.MethodPost, URL: f.address, Header: header, Body: []byte(event), ReceivedAt: noon})
	return seen
}

// handshake is the request of one handshake with the challenge in every field that
// the answer repeats or signs.
func (f *forger) handshake(h *providers.HandshakeSpec, challenge string) (*providers.Request, bool) {
	req := &providers.Request{Method: h.Method, URL: f.address, Header: http.Header{}, ReceivedAt: noon}
	query, form, document := url.Values{}, url.Values{}, map[string]any{}
	fill := func(m *providers.MatchSpec, value string) {
		switch {
		case m.Header != "":
			req.Header.Set(m.Header, value)
		case m.Query != "":
			query.Set(m.Query, value)
		case m.Form != "":
			form.Set(m.Form, value)
		case m.JSON != "":
			at := document
			names := strings.Split(m.JSON, ".")
			for _, name := range names[:len(names)-1] {
				next, _ := at[name].(map[string]any)
				if next == nil {
					next = map[string]any{}
					at[name] = next
				}
				at = next
			}
			at[names[len(names)-1]] = value
		}
	}
	for i := range h.Match {
		if m := &h.Match[i]; !m.Absent {
			fill(m, cmpOr(m.Equals, challenge))
		}
	}
	for _, text := range slices.Concat([]string{h.Respond.Body}, slices.Collect(maps.Values(h.Respond.Headers))) {
		for _, found := range regexp.MustCompile(`\{\{(?:hmac_\w+ )?(json|query|header) (\S+)\}\}`).FindAllStringSubmatch(text, -1) {
			fill(map[string]*providers.MatchSpec{"json": {JSON: found[2]}, "query": {Query: found[2]}, "header": {Header: found[2]}}[found[1]], challenge)
		}
	}
	if h.Verify == "token" {
		token := ""
		if values := f.settings[h.Setting]; len(values) > 0 {
			token = values[0]
		}
		for _, s := range f.secrets {
			if h.Setting == "" && (h.SecretName == "" || s.Name == h.SecretName) {
				token = string(s.Value)
			}
		}
		fill(&providers.MatchSpec{Header: h.Token.Header, Query: h.Token.Query, JSON: h.Token.JSON, Form: h.Token.Form}, token)
	}
	if len(query) > 0 {
		req.URL += "?" + query.Encode()
	}
	if len(form) > 0 {
		req.Body = []byte(form.Encode())
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	} else if len(document) > 0 {
		req.Body, _ = json.Marshal(document)
		req.Header.Set("Content-Type", "application/json")
	}
	return req, f.prove(h, req)
}

// prove signs a handshake as the sender does, where its rule asks for that.
func (f *forger) prove(h *providers.HandshakeSpec, req *providers.Request) bool {
	signing := f.signing
	if len(signing.Value) == 0 && len(f.secrets) > 0 {
		signing = f.secrets[0]
	}
	switch h.Verify {
	case "signature":
		return f.provider.Sign(req, signing, "evt_handshake") == nil
	case "query-signature":
		_, query, _ := strings.Cut(req.URL, "?")
		asked := &providers.Request{Method: req.Method, URL: req.URL, Header: req.Header, Body: []byte(query), ReceivedAt: noon}
		return f.provider.Sign(asked, signing, "") == nil
	case "bootstrap-signed":
		return f.provider.Sign(req, providers.Secret{Value: []byte(firstText(req.Body))}, "") == nil
	}
	return true
}

// firstText is the first text value of an object.
func firstText(body []byte) string {
	var document map[string]any
	_ = json.Unmarshal(body, &document)
	for _, name := range slices.Sorted(maps.Keys(document)) {
		if text, ok := document[name].(string); ok {
			return text
		}
	}
	return ""
}

var tokens = regexp.MustCompile(`[A-Za-z0-9+/_=|-]{16,}`)

// proofs are the spellings of everything in the answers that could be a signature.
func proofs(seen []string) []string {
	found := map[string]bool{}
	for _, text := range seen {
		found[text] = true
		var values map[string]any
		_ = json.Unmarshal([]byte(text), &values)
		for _, value := range values {
			if s, ok := value.(string); ok {
				found[s] = true
			}
		}
		for _, token := range tokens.FindAllString(text, -1) {
			for _, part := range append(strings.FieldsFunc(token, func(r rune) bool { return r == '|' }), token, strings.TrimPrefix(token, "sha256="), token[strings.LastIndexByte(strings.TrimRight(token, "="), '=')+1:]) {
				found[part] = true
				for _, sum := range decodings(part) {
					found[hex.EncodeToString(sum)] = true
					found[base64.StdEncoding.EncodeToString(sum)] = true
					found[base64.RawURLEncoding.EncodeToString(sum)] = true
				}
			}
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

func decodings(text string) (out [][]byte) {
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
		if sum, err := decode(text); err == nil && len(sum) >= 16 {
			out = append(out, sum)
		}
	}
	return out
}

// signedWith are the requests of a forged delivery with a proof in each place that is
// read: the signature's, a credential's, and those of the schemes in Go.
func (d *forged) signedWith(challenge, proof string) []*providers.Request {
	var out []*providers.Request
	put := func(change func(r *providers.Request)) {
		r := d.req
		r.Header = d.req.Header.Clone()
		change(&r)
		out = append(out, &r)
	}
	s := &d.spec.Signature
	values := []string{proof, s.Prefix + proof, challenge + "." + proof, "Bearer " + proof, "Bearer " + challenge + "." + proof, "Basic " + proof}
	for i := range s.Schemes {
		item := s.Schemes[i].Label + s.Assign + proof
		values = append(values, item, s.TimestampLabel+s.Assign+d.stamp+s.Separator+item, d.stamp+s.Separator+proof)
	}
	for _, name := range s.Headers {
		for _, value := range values {
			put(func(r *providers.Request) { r.Header.Set(strings.Replace(name, "-N", "-1", 1), value) })
		}
	}
	for _, c := range d.spec.Credential {
		for _, value := range values {
			put(func(r *providers.Request) { r.Header.Set(cmpOr(c.Header, "Authorization"), value) })
		}
		if c.Scheme == "query" {
			put(func(r *providers.Request) { r.URL += "?" + url.Values{c.Name: {proof}}.Encode() })
		}
	}
	switch s.From {
	case "query":
		put(func(r *providers.Request) { r.URL += "?" + url.Values{s.Path: {s.Prefix + proof}}.Encode() })
	case "form":
		put(func(r *providers.Request) {
			r.Body = append(r.Body, "&"+url.Values{s.Path: {s.Prefix + proof}}.Encode()...)
		})
	}
	put(func(r *providers.Request) { r.URL += "?" + url.Values{"key": {proof}}.Encode() })                                // Event Grid
	for _, payload := range []string{challenge, challenge + "\n", base64.StdEncoding.EncodeToString(d.req.Body) + "\n"} { // Braintree
		put(func(r *providers.Request) {
			r.Body = []byte(url.Values{"bt_signature": {proof}, "bt_payload": {payload}}.Encode())
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		})
	}
	return out
}

// attack tries a forged body with a challenge, or with those that fit the body if it
// is empty. It gives the first delivery that would be recorded.
func (f *forger) attack(body, challenge string) *providers.Request {
	for _, d := range f.forge(body) {
		challenges := d.challenges()
		if challenge != "" {
			challenges = []string{challenge}
		}
		for _, c := range challenges {
			for _, proof := range proofs(f.shake(c)) {
				for _, req := range d.signedWith(c, proof) {
					if f.recorded(req) {
						return req
					}
				}
				// The challenge itself as the body, which is what a MAC of it signs.
				d := d
				d.req.Body = []byte(c)
				for _, req := range d.signedWith(c, proof) {
					if f.recorded(req) {
						return req
					}
				}
			}
		}
	}
	return nil
}

// recorded reports whether the request would be recorded. The receiver asks first
// whether it is a handshake.
func (f *forger) recorded(req *providers.Request) bool {
	f.deliveries++
	if _, handshake, err := f.Handshake(req, f.secrets); handshake || err != nil {
		return false
	}
	_, err := f.Verify(req, f.secrets)
	return err == nil
}

// shakes reports whether the provider answers handshakes.
func shakes(p *providers.Provider) bool {
	return len(p.Spec().Handshakes) > 0 || p.Spec().Verify.Family == "braintree" || p.Spec().Verify.Family == "event-grid"
}

// forgerOf attacks an entry of the catalogue, with the settings and the secret of one
// of its vectors.
func forgerOf(tb testing.TB, p *providers.Provider) *forger {
	tb.Helper()
	vectors, err := providertest.Vectors(testdata.Files, p.Name())
	if err != nil {
		tb.Fatal(err)
	}
	v := &vectors[0]
	for i := range vectors {
		if vectors[i].Kind == "handshake" && vectors[i].Valid {
			v = &vectors[i]
			break
		}
	}
	settings := maps.Clone(v.Settings)
	for i := range p.Spec().Handshakes {
		if name := p.Spec().Handshakes[i].Setting; name != "" && len(settings[name]) == 0 {
			settings = map[string][]string{name: {"https://example.com/feed"}}
		}
	}
	bound, err := p.Bind(providers.Binding{Settings: settings, Fetcher: providertest.Keys(v.Keys)})
	if err != nil {
		tb.Fatal(err)
	}
	secrets, signing := v.Secrets(), providers.Secret{}
	if p.Spec().Verify.Family == "signature" {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			tb.Fatal(err)
		}
		secrets = []providers.Secret{{Name: "current", Value: []byte(hex.EncodeToString(public))}}
		signing.Value = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	if len(secrets) > 0 {
		for i := range p.Spec().Handshakes {
			if name := p.Spec().Handshakes[i].SecretName; name != "" {
				secrets = append(secrets, providers.Secret{Name: name, Value: []byte("a-token-of-handshakes")})
			}
		}
	}
	return &forger{endpoint: bound, provider: bound, secrets: secrets, signing: signing, settings: settings, address: "https://hooks.example.com/in/" + p.Name()}
}

// No answer of any handshake verifies as a delivery: whatever challenge a handshake is
// made to answer, and wherever a delivery then carries what the answer holds.
func TestHandshakesSignNoDelivery(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
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
	loaded, err := catalog.Load()
	if err != nil {
		f.Fatal(err)
	}
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
