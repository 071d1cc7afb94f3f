package scheme

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// BodyToken verifies a signed token that is the body, or a member of the body. It is written in Go
// because the token is the event itself: the verified claims, and nothing else in the body, are the
// document from which the event is read.
//
// Options: json or form (the member or form field that contains the token; the body is the token if
// both are absent), unpack (members of the claims to decode, see [unpack]), keys (jwks, which is the
// default, pem for public keys that are the secrets of the source, or x5c for a certificate chain in
// the token), roots and oids (see [Input.chainKey]), signed_at (the claim with the time of signing in
// milliseconds), match (setting=path,path: the settings that members of the claims must equal), and
// algorithms, keys_url, hosts, issuer, audience, require and claims as in [JWT].
type BodyToken struct{}

// maxBodyToken is the longest token that is parsed, in bytes. A notification of Apple contains two
// other tokens, each with its certificates.
const maxBodyToken = 256 << 10

// These are the values of the option keys.
const (
	keysJWKS = "jwks"
	keysPEM  = "pem"
	keysX5C  = "x5c"
)

// keySource returns the option keys, or its default.
func keySource(s Settings) string {
	if kind := s.One("keys"); kind != "" {
		return kind
	}
	return keysJWKS
}

// Check requires a public key in PEM, or a certificate with one.
func (BodyToken) Check(secret []byte) error {
	if isPrivate(secret) {
		return errors.New("is a private key; the source needs the public one")
	}
	_, err := parsePublic(secret)
	return err
}

// Secretless returns true unless the secrets of the source are the keys.
func (BodyToken) Secretless(s Settings) bool { return keySource(s) != keysPEM }

// Prepare checks the options.
func (BodyToken) Prepare(s Settings) error {
	if slices.ContainsFunc(s["algorithms"], func(name string) bool { return symmetric[name] }) {
		return errors.New("algorithms: a token in the body is verified with public keys only")
	}
	for _, rule := range s["match"] {
		if setting, paths, _ := strings.Cut(rule, "="); setting == "" || paths == "" {
			return errors.New("match: " + rule + " is not setting=path,path")
		}
	}
	switch keySource(s) {
	case keysPEM:
	case keysJWKS:
		if s.One("keys_url") == "" {
			return errors.New("keys_url is missing: the https address of the sender's key set")
		}
	case keysX5C:
		if len(s["roots"]) == 0 {
			return errors.New("roots is missing: the certificate, in PEM, to which the chain in the token must lead")
		}
		if err := (&Input{Settings: s}).checkChain(); err != nil {
			return err
		}
	default:
		return errors.New("keys: " + s.One("keys") + " is not jwks, pem or x5c")
	}
	return JWT{}.Prepare(s)
}

// Verify checks the token and its claims.
func (BodyToken) Verify(in *Input) (Result, error) {
	text, where, err := tokenIn(in.Settings, in.Body)
	if err != nil {
		return Result{}, err
	}
	parsed, err := in.parseToken(text, where, maxBodyToken, func(algorithm string) bool { return !symmetric[algorithm] })
	if err != nil {
		return Result{}, err
	}
	secret, payload, err := in.bodyTokenKey(parsed, where)
	if err != nil {
		return Result{}, err
	}
	at, err := in.claims(payload)
	if err != nil {
		return Result{}, err
	}
	if signed, ok, err := in.signedAt(payload); err != nil {
		return Result{}, err
	} else if ok {
		if err := in.fresh(signed); err != nil {
			return Result{}, err
		}
		at = signed
	}
	if err := in.matches(payload); err != nil {
		return Result{}, err
	}
	return Result{Secret: secret, SignedAt: at, Document: unpack(payload, in.Settings["unpack"])}, nil
}

// bodyTokenKey verifies the token's signature, and returns the name of the key and the payload.
func (in *Input) bodyTokenKey(parsed *jose.JSONWebSignature, where string) (name string, payload []byte, err error) {
	switch keySource(in.Settings) {
	case keysX5C:
		key, err := in.chainKey(parsed)
		if err != nil {
			return "", nil, err
		}
		if payload, err = parsed.Verify(key); err != nil {
			return "", nil, refuse(Mismatch, "the certificate in the token does not match its signature")
		}
		return "certificate", payload, nil
	case keysPEM:
		for _, s := range in.Secrets {
			key, err := parsePublic(s.Value)
			if err != nil {
				continue
			}
			if payload, err := parsed.Verify(key); err == nil {
				return s.Name, payload, nil
			}
		}
		return "", nil, refuse(Mismatch, "no live secret matches "+where)
	}
	return in.published(parsed, where)
}

// signedAt reads the claim that the option signed_at names. ok is false without that option.
func (in *Input) signedAt(payload []byte) (at time.Time, ok bool, err error) {
	name := in.Settings.One("signed_at")
	if name == "" {
		return time.Time{}, false, nil
	}
	var claims map[string]json.RawMessage
	var milliseconds int64
	_ = json.Unmarshal(payload, &claims) // claims that cannot be read contain no time
	if json.Unmarshal(claims[name], &milliseconds) != nil || milliseconds <= 0 || milliseconds > 1e14 {
		return time.Time{}, false, refuse(Malformed, "the token's claim "+name+" is no time")
	}
	return time.UnixMilli(milliseconds).UTC(), true, nil
}

// matches compares members of the claims with the settings that the option match names. Several
// customers of one sender have tokens from the same key, so such a member says for whom a token is.
func (in *Input) matches(payload []byte) error {
	for _, rule := range in.Settings["match"] {
		setting, paths, _ := strings.Cut(rule, "=")
		want := in.Settings[setting]
		if len(want) == 0 {
			continue
		}
		found := false
		for path := range strings.SplitSeq(paths, ",") {
			value, ok, err := textAt(payload, path)
			switch {
			case err != nil:
				return refuse(Malformed, "the token's claims cannot be read")
			case !ok:
			case !slices.Contains(want, value):
				return refuse(Mismatch, "the token's "+path+" is not the "+setting+" of the source")
			default:
				found = true
			}
		}
		if !found {
			return refuse(Mismatch, "the token has no "+strings.ReplaceAll(paths, ",", " or ")+" to compare with the "+setting+" of the source")
		}
	}
	return nil
}

// parsePublic parses a public key, or a certificate, in PEM.
func parsePublic(text []byte) (any, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("is not a public key in PEM (-----BEGIN PUBLIC KEY-----)")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("contains more than one public key in PEM; write one secret for each key")
	}
	if block.Type == "CERTIFICATE" {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("is not a certificate")
		}
		return c.PublicKey, nil
	}
	if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS1PublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is not a public key")
	}
	return key, nil
}

// isPrivate reports whether a PEM text contains a private key.
func isPrivate(text []byte) bool { return bytes.Contains(text, []byte("PRIVATE KEY-----")) }
