package scheme

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// JWT verifies a signed token in a header. It is written in Go because keys, claims and the binding
// to the body form a protocol of their own, which a maintained library implements.
//
// Options: algorithms (the allowlist, which nothing in the token can widen), prefix (a word before
// the token, such as Bearer), issuer, audience, require (the required claims, exp and aud by
// default, or none), claims (name=value), body_claim and body_encoding (hex or base64 of the body's
// SHA-256), keys_url and hosts (a JWK set), keys (jwks, plaid or secret).
type JWT struct{}

// maxToken is the longest token that is parsed, in bytes.
const maxToken = 8 << 10

// symmetric contains the algorithms whose key is a shared secret.
var symmetric = map[string]bool{"HS256": true, "HS384": true, "HS512": true}

// Check requires a secret of at least 8 bytes.
func (JWT) Check(secret []byte) error {
	if len(secret) < 8 {
		return errors.New("is shorter than 8 bytes")
	}
	return nil
}

// Secretless returns true if the options allow an algorithm with public keys and name the address
// where they are published.
func (JWT) Secretless(options Settings) bool {
	if options.One("keys_url") == "" {
		return false
	}
	public := slices.ContainsFunc(options["algorithms"], func(name string) bool { return !symmetric[name] })
	return (public || len(options["algorithms"]) == 0) && options.One("keys") != "plaid"
}

// Prepare checks the options.
func (JWT) Prepare(s Settings) error {
	for _, name := range s["algorithms"] {
		if !slices.Contains([]string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"}, name) {
			return errors.New("algorithms: " + name + " is not one that is verified")
		}
	}
	if len(s["algorithms"]) == 0 {
		return errors.New("algorithms is missing")
	}
	if s.One("keys_url") == "" {
		return nil
	}
	_, err := keysHosts(s, s.One("keys_url"))
	return err
}

// keysHosts returns the hosts from which keys may be fetched: those that the provider names, or
// else the host of the address that the operator configured.
func keysHosts(s Settings, address string) ([]string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("keys_url is not an https address")
	}
	if hosts := s["hosts"]; len(hosts) > 0 {
		if !slices.Contains(hosts, u.Host) {
			return nil, errors.New("keys_url is not at " + strings.Join(hosts, " or "))
		}
		return hosts, nil
	}
	return []string{u.Host}, nil
}

// Verify checks token, claims and body.
func (JWT) Verify(in *Input) (Result, error) {
	if len(in.Headers) == 0 {
		return Result{}, errors.New("verifying a token: no header is named")
	}
	value, err := in.needed(in.Headers[0], Unsigned)
	if err != nil {
		return Result{}, err
	}
	if prefix := in.Settings.One("prefix"); prefix != "" {
		word, rest, ok := strings.Cut(value, " ")
		if !ok || !strings.EqualFold(word, prefix) {
			return Result{}, refuse(Malformed, "header "+in.Headers[0]+" has no "+prefix+" token")
		}
		value = strings.Trim(rest, " ")
	}
	secret, payload, err := in.token(value, in.Headers[0])
	if err != nil {
		return Result{}, err
	}
	at, err := in.claims(payload)
	return Result{Secret: secret, SignedAt: at}, err
}

// token checks the signature of a token and returns its claims.
func (in *Input) token(text, where string) (secret string, payload []byte, err error) {
	// Never use a public key as a shared secret, or a shared secret as a public key.
	shared := len(in.Secrets) > 0 && in.Settings.One("keys") != "plaid"
	parsed, err := in.parseToken(text, where, maxToken, func(algorithm string) bool { return symmetric[algorithm] == shared })
	if err != nil {
		return "", nil, err
	}
	if !shared {
		return in.published(parsed, where)
	}
	// The library requires a secret as long as the hash. Senders often let their users choose a
	// shorter one.
	header, signed := parsed.Signatures[0].Header, text[:strings.LastIndexByte(text, '.')]
	for _, s := range in.Secrets {
		if hmac.Equal(tokenMAC(header.Algorithm, s.Value, signed), parsed.Signatures[0].Signature) {
			return s.Name, parsed.UnsafePayloadWithoutVerification(), nil
		}
	}
	return "", nil, refuse(Mismatch, "no live secret matches "+where)
}

// parseToken parses a token of one signature, in an algorithm of the source for which usable
// returns true. Nothing in the token is verified yet.
func (in *Input) parseToken(text, where string, longest int, usable func(algorithm string) bool) (*jose.JSONWebSignature, error) {
	if len(text) > longest {
		return nil, refuse(Malformed, "the token is longer than "+strconv.Itoa(longest>>10)+" KiB")
	}
	algorithms := in.algorithms(usable)
	if len(algorithms) == 0 {
		return nil, refuse(Mismatch, "there is no key for any algorithm of the source")
	}
	parsed, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, refuse(Malformed, where+" has no token in an algorithm of the source")
	}
	if len(parsed.Signatures) != 1 {
		return nil, refuse(Malformed, where+" has no token of one signature")
	}
	return parsed, nil
}

// algorithms returns the algorithms of the source for which usable returns true.
func (in *Input) algorithms(usable func(algorithm string) bool) (out []jose.SignatureAlgorithm) {
	for _, name := range in.Settings["algorithms"] {
		if usable(name) {
			out = append(out, jose.SignatureAlgorithm(name))
		}
	}
	return out
}

// published verifies a token with the published keys, and returns the id of the key and the
// payload. The token may only give the id of a key to look up. A key or an address in the token
// (jwk, jku, x5u, x5c) is ignored.
func (in *Input) published(parsed *jose.JSONWebSignature, where string) (id string, payload []byte, err error) {
	header := parsed.Signatures[0].Header
	keys, want, err := in.keys(header.KeyID)
	if err != nil {
		return "", nil, err
	}
	for i := range keys {
		key := &keys[i]
		if !key.Valid() || !key.IsPublic() || key.Use == "enc" || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := parsed.Verify(key.Key); err == nil {
			in.confirm(want)
			return header.KeyID, payload, nil
		}
	}
	return "", nil, refuse(Mismatch, "no published key matches "+where)
}

// tokenMAC returns the signature of a token under a shared secret.
func tokenMAC(algorithm string, secret []byte, signed string) []byte {
	hash := sha256.New
	switch algorithm {
	case "HS384":
		hash = sha512.New384
	case "HS512":
		hash = sha512.New
	}
	mac := hmac.New(hash, secret)
	mac.Write([]byte(signed))
	return mac.Sum(nil)
}

// maxKeys is how many keys of a set are tried.
const maxKeys = 8

// keys returns the published keys with an id, and the request with which they were fetched. If the
// cached set lacks the id, keys fetches the set again, because only a set fetched after this
// request arrived shows that the id is not published. If the set cannot be fetched again yet, keys
// returns a Deferral so that the sender retries, because the id may be that of a new key.
func (in *Input) keys(id string) ([]jose.JSONWebKey, KeyRequest, error) {
	if in.Settings.One("keys") == "plaid" {
		return in.plaidKey(id)
	}
	address := in.Settings.One("keys_url")
	if address == "" {
		return nil, KeyRequest{}, refuse(Mismatch, "the source has neither a secret nor an address of keys")
	}
	hosts, err := keysHosts(in.Settings, address)
	if err != nil {
		return nil, KeyRequest{}, err
	}
	want := KeyRequest{URL: address, Hosts: hosts, Check: func(document []byte) error {
		_, err := keySet(document)
		return err
	}}
	for _, want.Renew = range []bool{false, true} {
		text, err := in.fetch(want)
		if err != nil {
			return nil, want, err
		}
		set, err := keySet(text)
		if err != nil {
			return nil, want, err
		}
		found := set.Key(id)
		if id == "" && len(set.Keys) == 1 {
			found = set.Keys // a token without an id can only mean the single key
		}
		if len(found) > 0 {
			return found[:min(len(found), maxKeys)], want, nil
		}
	}
	return nil, want, refuse(Mismatch, "the key that the token names is not published")
}

func keySet(document []byte) (*jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	if json.Unmarshal(document, &set) != nil && json.Unmarshal(padCoordinates(document), &set) != nil {
		return nil, errors.New("the key store answered something that is no set of keys")
	}
	return &set, nil
}

// registered contains the claims that are read by name.
type registered struct {
	Issuer    string          `json:"iss"`
	Audience  json.RawMessage `json:"aud"`
	Expires   *float64        `json:"exp"`
	NotBefore *float64        `json:"nbf"`
	IssuedAt  *float64        `json:"iat"`
}

// leeway is how far two clocks may differ in the checks of exp and nbf.
const leeway = 60 * time.Second

// leeway returns the option leeway in seconds, or the default. A provider sets it if its tokens
// must not be accepted after they expire.
func (in *Input) leeway() time.Duration {
	if n, err := strconv.Atoi(in.Settings.One("leeway")); err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	return leeway
}

// claims checks the claims of an authentic token, and that the token belongs to this body.
func (in *Input) claims(payload []byte) (time.Time, error) {
	var c registered
	var all map[string]json.RawMessage
	if json.Unmarshal(payload, &c) != nil || json.Unmarshal(payload, &all) != nil {
		return time.Time{}, refuse(Malformed, "the token's claims cannot be read")
	}
	required := in.Settings["require"]
	if len(required) == 0 {
		required = []string{"exp", "aud"}
	}
	for _, name := range required {
		if _, ok := all[name]; !ok && name != "none" {
			return time.Time{}, refuse(Mismatch, "the token has no claim "+name)
		}
	}
	if issuers := in.Settings["issuer"]; len(issuers) > 0 && !slices.Contains(issuers, c.Issuer) {
		return time.Time{}, refuse(Mismatch, "the token is from another issuer")
	}
	if want := in.Settings["audience"]; len(want) > 0 && !meets(c.Audience, want) {
		return time.Time{}, refuse(Mismatch, "the token is for another audience")
	} else if len(want) == 0 && slices.Contains(required, "aud") {
		return time.Time{}, errors.New("the audience of the source is not set")
	}
	for _, pair := range in.Settings["claims"] {
		name, want, _ := strings.Cut(pair, "=")
		if got := string(all[name]); got != want && got != `"`+want+`"` {
			return time.Time{}, refuse(Mismatch, "the token's claim "+name+" is another")
		}
	}
	if want := in.Settings["email"]; len(want) > 0 && !meets(all["email"], want) {
		return time.Time{}, refuse(Mismatch, "the token is of another service account")
	}
	if err := in.bound(all); err != nil {
		return time.Time{}, err
	}
	return in.times(&c)
}

func (in *Input) times(c *registered) (time.Time, error) {
	moment := func(seconds *float64) (time.Time, bool) {
		if seconds == nil || *seconds < 0 || *seconds > 1e11 {
			return time.Time{}, false
		}
		return time.UnixMilli(int64(*seconds * 1000)).UTC(), true
	}
	if c.Expires != nil {
		at, ok := moment(c.Expires)
		if !ok {
			return time.Time{}, refuse(Malformed, "the token's exp is no time")
		}
		if in.ReceivedAt.After(at.Add(in.leeway())) {
			return time.Time{}, refuse(Stale, "the token has expired")
		}
	}
	if at, ok := moment(c.NotBefore); ok && in.ReceivedAt.Before(at.Add(-in.leeway())) {
		return time.Time{}, refuse(Early, "the token is not valid yet")
	}
	at, ok := moment(c.IssuedAt)
	if !ok {
		return time.Time{}, nil
	}
	if in.Settings.One("max_age") == "exp" {
		// The claim exp limits the token's life, so only a time of issue in the future is refused
		// here.
		if in.Future >= 0 && at.Sub(in.ReceivedAt) > in.Future {
			return time.Time{}, refuse(Early, "the token was issued after it was received")
		}
		return at, nil
	}
	return at, in.fresh(at)
}

// meets reports whether a claim, a string or a list of strings, has one of the wanted values.
func meets(claim json.RawMessage, want []string) bool {
	var list []string
	if json.Unmarshal(claim, &list) != nil {
		var text string
		if json.Unmarshal(claim, &text) != nil {
			return false
		}
		list = []string{text}
	}
	return slices.ContainsFunc(list, func(s string) bool { return s != "" && slices.Contains(want, s) })
}

// bound checks the claim that binds the token to the body.
func (in *Input) bound(claims map[string]json.RawMessage) error {
	name := in.Settings.One("body_claim")
	if name == "" {
		return nil
	}
	var got string
	if json.Unmarshal(claims[name], &got) != nil || got == "" {
		return refuse(Malformed, "the token has no claim "+name)
	}
	sum := sha256.Sum256(in.Body)
	want := hex.EncodeToString(sum[:])
	if in.Settings.One("body_encoding") == "base64" {
		want = base64.StdEncoding.EncodeToString(sum[:])
	}
	if !same(got, want) {
		return refuse(Mismatch, "the token is about another body")
	}
	return nil
}

// Sign creates a token with a shared secret. It cannot use other algorithms, because only the
// sender has the private key.
func (JWT) Sign(in *Input, secret []byte) error {
	if len(secret) == 0 || !slices.ContainsFunc(in.Settings["algorithms"], func(a string) bool { return symmetric[a] }) {
		return errors.New("only the provider has the key to sign with")
	}
	sum := sha256.Sum256(in.Body)
	body := hex.EncodeToString(sum[:])
	if in.Settings.One("body_encoding") == "base64" {
		body = base64.StdEncoding.EncodeToString(sum[:])
	}
	claims := map[string]any{"iat": in.ReceivedAt.Unix(), "exp": in.ReceivedAt.Unix() + 300}
	if name := in.Settings.One("body_claim"); name != "" {
		claims[name] = body
	}
	if slices.Contains(in.Settings["require"], "jti") {
		claims["jti"] = body
	}
	for claim, setting := range map[string]string{"iss": "issuer", "aud": "audience"} {
		if value := in.Settings.One(setting); value != "" {
			claims[claim] = value
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return errors.New("the claims cannot be written")
	}
	algorithm := ""
	for _, name := range in.Settings["algorithms"] {
		if symmetric[name] {
			algorithm = name
			break
		}
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"`+algorithm+`","typ":"JWT"}`)) + "." + encode(payload)
	text += "." + encode(tokenMAC(algorithm, secret, text))
	if prefix := in.Settings.One("prefix"); prefix != "" {
		text = prefix + " " + text
	}
	in.Header.Set(in.Headers[0], text)
	return nil
}
