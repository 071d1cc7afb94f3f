package access_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// provider is a small OpenID Connect provider according to RFC 6749, RFC 7636 and OpenID Connect
// Core.
type provider struct {
	*httptest.Server
	key   *rsa.PrivateKey
	other *ecdsa.PrivateKey // not a key of the provider

	mu       sync.Mutex
	codes    map[string]grant
	asked    map[string]int // by path
	claims   func(map[string]any)
	sign     func(claims []byte) string
	answer   func(w http.ResponseWriter) bool // returns true if it has answered the token request
	basic    bool                             // whether the client authenticated with a header
	discover func(map[string]any)
	padding  int // number of spaces before the metadata
}

// grant is what the provider stores for a code.
type grant struct{ nonce, challenge, redirect string }

func newRSAKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// Keys are generated once because that is slow: the provider's own key, and an attacker's.
var ownKey, strangeKey = sync.OnceValue(newRSAKey), sync.OnceValue(newRSAKey)

const clientSecret = "client-secret-hunter2"

func newProvider(t *testing.T) *provider {
	t.Helper()
	key := ownKey()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, other: other, codes: map[string]grant{}, asked: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		document := map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256", "none"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		}
		if p.discover != nil {
			p.discover(document)
		}
		_, _ = w.Write(bytes.Repeat([]byte(" "), p.padding))
		_ = json.NewEncoder(w).Encode(document)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[r.URL.Path]++
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// consent acts as the person at the provider: the person agrees, and the provider sends the browser
// back with a code.
func (p *provider) consent(t *testing.T, authorization string) (callback string) {
	t.Helper()
	at, err := url.Parse(authorization)
	if err != nil || !strings.HasPrefix(authorization, p.URL+"/authorize?") {
		t.Fatalf("the browser is sent to %q, %v", authorization, err)
	}
	q := at.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != "oncegate" || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("state")) < 20 || len(q.Get("nonce")) < 20 || q.Get("scope") != "openid email groups" {
		t.Fatalf("the provider is asked for %v", q)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code := fmt.Sprintf("code-%d", len(p.codes)+1)
	p.codes[code] = grant{nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri")}
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		t.Fatal(err)
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
	return back.RequestURI()
}

// token exchanges a code, once.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	refuse := func(reason string) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": reason, "error_description": "<script>alert(1)</script>"})
	}
	if p.answer != nil && p.answer(w) {
		return
	}
	id, secret, basic := r.BasicAuth()
	p.basic = basic
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	code := r.PostFormValue("code")
	given, ok := p.codes[code]
	delete(p.codes, code)
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != "oncegate" || secret != clientSecret:
		refuse("invalid_client")
		return
	case !ok || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != given.redirect ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != given.challenge:
		refuse("invalid_grant")
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "sub": "user-1", "aud": "oncegate", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "nonce": given.nonce,
		"email": "ann@example.com", "email_verified": true, "groups": []string{"everyone", "support"},
	}
	if p.claims != nil {
		p.claims(claims)
	}
	text, _ := json.Marshal(claims)
	sign := p.sign
	if sign == nil {
		sign = func(claims []byte) string { return p.signed(jose.RS256, p.key, "1", claims) }
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": sign(text)})
}

func (p *provider) signed(alg jose.SignatureAlgorithm, key any, id string, claims []byte) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		panic(err)
	}
	signature, err := signer.Sign(claims)
	if err != nil {
		panic(err)
	}
	text, err := signature.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

// unsigned returns a token whose header says that it has no signature.
func unsigned(claims []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","kid":"1"}`)) + "." + encode(claims) + "."
}
