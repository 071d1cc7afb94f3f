package providers_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
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

// shake sends the challenge to every handshake of the endpoint, as far as a sender can, and returns
// the texts in the answers and their requests.
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

// attack tries a forged body with a challenge, or with all challenges for the body if it is empty.
// It returns the first delivery that would be recorded.
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
