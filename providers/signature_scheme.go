package providers

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some providers sign with HMAC-SHA1
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// scheme is a compiled SchemeSpec.
type scheme struct {
	SchemeSpec
	new  func() hash.Hash // nil for public-key schemes
	size int              // of a signature, in bytes
	macs *macs            // shared by all copies
}

// algorithm returns the hash and the signature size of an algorithm that the data-driven families
// support.
func algorithm(name string) (newHash func() hash.Hash, size int, ok bool) {
	switch name {
	case "hmac-sha1":
		return sha1.New, sha1.Size, true
	case "hmac-sha256":
		return sha256.New, sha256.Size, true
	case "hmac-sha384":
		return sha512.New384, sha512.Size384, true
	case "hmac-sha512":
		return sha512.New, sha512.Size, true
	case "sha1":
		return sha1.New, sha1.Size, true
	case "sha256":
		return sha256.New, sha256.Size, true
	case "ecdsa-p256-sha256":
		return nil, 0, true // the length of DER varies
	case "ed25519":
		return nil, ed25519.SignatureSize, true
	case "rsa-sha1", "rsa-sha256":
		return nil, 0, true // as long as the key
	}
	return nil, 0, false
}

// mac starts an HMAC, or a plain digest whose parts include the secret.
func (s *scheme) mac(key []byte) hash.Hash {
	if s.digest() {
		return s.new()
	}
	return hmac.New(s.new, key)
}

func (s *SchemeSpec) digest() bool { return s.Algorithm == "sha1" || s.Algorithm == "sha256" }

// The decoders of signatures accept only one encoding of each signature.
var (
	strictBase64    = base64.StdEncoding.Strict()
	strictRawBase64 = base64.RawStdEncoding.Strict()
	strictRawURL    = base64.RawURLEncoding.Strict()
)

// decode appends the bytes of a signature to out. It refuses a signature of the wrong size.
func (s *scheme) decode(text string, out []byte) ([]byte, bool) {
	limit := s.size
	if limit == 0 {
		limit = maxPublicSum
	}
	if len(text) > 2*limit+2 {
		return nil, false
	}
	var sum []byte
	var err error
	var short [2*64 + 2]byte // enough for any HMAC
	switch s.Encoding {
	case "hex":
		sum, err = hex.AppendDecode(out, append(short[:0], text...))
	case "base64":
		sum, err = strictBase64.AppendDecode(out, append(short[:0], oneLine(text)...))
	case "base64-lenient":
		sum, err = strictRawBase64.AppendDecode(out, append(short[:0], strings.TrimRight(oneLine(text), "=")...))
	case "base64url":
		sum, err = strictRawURL.AppendDecode(out, append(short[:0], oneLine(text)...))
	case "base64url-lenient":
		sum, err = strictRawURL.AppendDecode(out, append(short[:0], strings.TrimRight(oneLine(text), "=")...))
	default:
		return nil, false
	}
	return sum, err == nil && (len(sum) == s.size || s.size == 0 && len(sum) > 0)
}

// oneLine returns the text, or an empty string if it has line breaks. The base64 decoders would
// skip them, so a signature would have several encodings.
func oneLine(text string) string {
	if strings.IndexByte(text, '\n') >= 0 || strings.IndexByte(text, '\r') >= 0 {
		return ""
	}
	return text
}

func (s *scheme) encode(sum []byte) string {
	switch s.Encoding {
	case "hex":
		return hex.EncodeToString(sum)
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(sum)
	case "base64url-lenient":
		return base64.URLEncoding.EncodeToString(sum)
	}
	return base64.StdEncoding.EncodeToString(sum)
}

var (
	errEmptySecret = errors.New("is empty")
	errOtherScheme = errors.New("belongs to another scheme")
)

// key decodes a secret. A secret with the required prefix of one scheme is a key of that scheme
// only, because a public key must never be used as an HMAC key.
func (s *scheme) key(secret []byte, all []scheme) ([]byte, error) {
	if s.Key == "" && len(all) == 1 && s.KeyPrefix == "" && s.PrivatePrefix == "" && !s.isPublic() && len(secret) > 0 {
		return secret, nil // unchanged
	}
	text := string(secret)
	for i := range all {
		o := &all[i]
		foreign := o.Label != s.Label && o.KeyPrefixRequired && strings.HasPrefix(text, o.KeyPrefix) //secretcompare:ok the provider documents the prefix
		private := o.PrivatePrefix != "" && strings.HasPrefix(text, o.PrivatePrefix)                 //secretcompare:ok the provider documents the prefix
		if foreign || private {
			return nil, errOtherScheme
		}
	}
	rest, found := strings.CutPrefix(text, s.KeyPrefix)
	if s.KeyPrefixRequired && !found {
		return nil, errors.New("does not start with " + s.KeyPrefix)
	}
	key, err := decodeKey(s.Key, rest)
	if err != nil {
		return nil, err
	}
	if s.isPublic() {
		if _, err := s.public(key); err != nil {
			return nil, err
		}
	}
	return key, nil
}

// notDecoded explains how to write a secret that does not decode. It never contains the secret.
func notDecoded(how string) string {
	if how == "hex" {
		return "is not hex: copy it exactly as the sender shows it; if the sender shows plain text, configure what `printf %s \"$SECRET\" | od -An -v -tx1 | tr -d ' \\n'` prints"
	}
	return "is not base64: copy it exactly as the sender shows it; if the sender shows plain text, configure what `printf %s \"$SECRET\" | base64 | tr -d '\\n'` prints (behind the same prefix, such as whsec_, if it has one)"
}

func decodeKey(how, text string) ([]byte, error) {
	var key []byte
	var err error
	switch how {
	case "", "text":
		key = []byte(text)
	case "nfkd":
		key = norm.NFKD.Bytes([]byte(text))
	case "after-colon":
		if _, after, found := strings.Cut(text, ":"); found {
			text = after
		}
		key = []byte(text)
	case "spki":
		if key, err = strictBase64.DecodeString(text); err != nil {
			return nil, errors.New("is not a public key in base64")
		}
	case "pem":
		return decodePEM(text)
	case "hex":
		key, err = hex.DecodeString(text)
	case "base64":
		key, err = strictBase64.DecodeString(text)
	case "base64url":
		key, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	case "base64-lenient":
		key, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil {
		return nil, errors.New(notDecoded(how))
	}
	if len(key) == 0 {
		return nil, errEmptySecret
	}
	return key, nil
}
