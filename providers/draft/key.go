package draft

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // some senders sign with RSA and SHA-1
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// key is one interpretation of the secret as a signing key.
type key struct {
	value    []byte
	how      string // the spec's word: text, hex, base64, ...
	prefix   string // removed from the secret before decoding
	text     string // the description for the operator
	selectBy string // the header that names the key
}

// secretPrefix matches a prefix with which senders mark the kind of a secret, such as whsec_. The
// prefix is public, and the YAML contains it if the key is the rest of the secret. A prefix of any
// other shape may be part of the secret, so the YAML never contains it.
var secretPrefix = regexp.MustCompile(`^([a-z]{2,10}_([a-z]{2,8}_)?|[a-z]{2,4}-)`)

// minRest is the number of bytes that must follow a prefix. The prefixes whsec_ and whpk_ are
// exempt.
const minRest = 16

// keys returns the interpretations of a secret, the likeliest first, each value once.
func keys(c *captured, secret []byte) []key {
	var out []key
	add := func(k key) {
		if len(k.value) > 0 && !slices.ContainsFunc(out, func(o key) bool { return string(o.value) == string(k.value) }) {
			out = append(out, k)
		}
	}
	whole := string(secret)
	add(key{value: secret, how: "text", text: "the secret as text"})
	decodings := func(text, prefix, selectBy, what string) {
		k := key{prefix: prefix, selectBy: selectBy}
		if prefix != "" {
			k.value, k.how, k.text = []byte(text), "text", what+" as text"
		}
		add(k)
		for _, d := range []struct {
			how    string
			decode func(string) ([]byte, error)
		}{
			{"hex", hex.DecodeString},
			{"base64", base64.StdEncoding.Strict().DecodeString},
			{"base64-lenient", func(s string) ([]byte, error) {
				return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
			}},
			{"base64url", func(s string) ([]byte, error) {
				return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
			}},
		} {
			if value, err := d.decode(text); err == nil && len(value) > 0 {
				add(key{value: value, how: d.how, prefix: prefix, selectBy: selectBy, text: "the bytes that " + what + " is the " + strings.TrimSuffix(d.how, "-lenient") + " of"})
			}
		}
	}
	decodings(whole, "", "", "the secret")
	add(key{value: []byte(norm.NFKD.String(whole)), how: "nfkd", text: "the secret in the Unicode normal form NFKD"})
	for _, cut := range prefixesOf(whole) {
		decodings(whole[len(cut):], cut, "", "the secret without its prefix")
	}
	if _, after, ok := strings.Cut(whole, ":"); ok {
		add(key{value: []byte(after), how: "after-colon", text: "what follows the colon of the secret"})
	}
	if id, rest, ok := strings.Cut(whole, "="); ok && id != "" && rest != "" {
		for _, h := range c.headers {
			if h.value == id { //secretcompare:ok a key's id is no secret: requests name it
				add(key{value: []byte(rest), how: "text", selectBy: h.name, text: "the secret that header " + h.name + " names"})
				decodings(rest, "", h.name, "the secret that header "+h.name+" names")
			}
		}
	}
	return out
}

// prefixesOf returns the prefixes that a secret can have: up to its first separator, and up to its
// second.
func prefixesOf(secret string) []string {
	whole := secretPrefix.FindString(secret)
	if public := whole == "whsec_" || whole == "whpk_"; whole == "" || len(secret) == len(whole) || len(secret)-len(whole) < minRest && !public {
		return nil
	}
	if first := strings.IndexByte(whole, '_') + 1; first > 0 && first < len(whole) {
		return []string{whole[:first], whole}
	}
	return []string{whole}
}

// publicKey verifies signatures with a public key.
type publicKey struct {
	algorithm, how, text string
	verify               func(message, sum []byte) bool
	prefix               string // removed from the secret before decoding
}

// publicKeys returns the public keys that the secret can be.
func publicKeys(secret []byte) []publicKey {
	text := strings.TrimSpace(strings.ReplaceAll(string(secret), `\n`, "\n"))
	var parsed any
	how := "pem"
	if block, _ := pem.Decode([]byte(text)); block != nil {
		parsed, _ = x509.ParsePKIXPublicKey(block.Bytes)
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			parsed = certificate.PublicKey
		}
	} else if der, err := base64.StdEncoding.DecodeString(text); err == nil && len(der) != ed25519.PublicKeySize {
		parsed, _ = x509.ParsePKIXPublicKey(der)
		how = "spki"
	}
	var out []publicKey
	raw := func(key []byte, how string) {
		if len(key) == ed25519.PublicKeySize {
			out = append(out, publicKey{"ed25519", how, "the public key in " + how, func(message, sum []byte) bool {
				return len(sum) == ed25519.SignatureSize && ed25519.Verify(key, message, sum)
			}, ""})
		}
	}
	switch public := parsed.(type) {
	case ed25519.PublicKey:
		raw(public, how)
	case *rsa.PublicKey:
		for name, hash := range map[string]crypto.Hash{"rsa-sha256": crypto.SHA256, "rsa-sha1": crypto.SHA1} {
			out = append(out, publicKey{name, how, "the public key in " + how, func(message, sum []byte) bool {
				digest := sha256.Sum256(message)
				hashed := digest[:]
				if hash == crypto.SHA1 {
					short := sha1.Sum(message) //nolint:gosec // as above
					hashed = short[:]
				}
				return rsa.VerifyPKCS1v15(public, hash, hashed, sum) == nil
			}, ""})
		}
	case *ecdsa.PublicKey:
		out = append(out, publicKey{"ecdsa-p256-sha256", how, "the public key in " + how, func(message, sum []byte) bool {
			digest := sha256.Sum256(message)
			return ecdsa.VerifyASN1(public, digest[:], sum)
		}, ""})
	}
	if key, err := hex.DecodeString(text); err == nil {
		raw(key, "hex")
	}
	if key, err := base64.StdEncoding.DecodeString(text); err == nil {
		raw(key, "base64")
	}
	for _, prefix := range prefixesOf(text) {
		if key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text[len(prefix):], "=")); err == nil {
			known := len(out)
			raw(key, "base64-lenient")
			for i := range out[known:] {
				out[known+i].prefix = prefix
			}
		}
	}
	return out
}
