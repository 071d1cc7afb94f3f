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
)

// scheme is a SchemeSpec made ready for use.
type scheme struct {
	SchemeSpec
	new  func() hash.Hash // nil for public-key schemes
	size int              // of a signature, in bytes
	macs *macs            // shared by all copies
}

// algorithms are what the families here can compute.
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
		return nil, 0, true // DER varies
	case "ed25519":
		return nil, ed25519.SignatureSize, true
	case "rsa-sha1", "rsa-sha256":
		return nil, 0, true // as long as the key
	}
	return nil, 0, false
}

// mac starts an HMAC, or a plain digest that has the secret among its parts.
func (s *scheme) mac(key []byte) hash.Hash {
	if s.digest() {
		return s.new()
	}
	return hmac.New(s.new, key)
}

func (s *SchemeSpec) digest() bool { return s.Algorithm == "sha1" || s.Algorithm == "sha256" }

// The decoders of signatures take one spelling of every sum.
var (
	strictBase64    = base64.StdEncoding.Strict()
	strictRawBase64 = base64.RawStdEncoding.Strict()
	strictRawURL    = base64.RawURLEncoding.Strict()
)

// decode appends the bytes of a signature of the right size to out.
func (s *scheme) decode(text string, out []byte) ([]byte, bool) {
	limit := s.size
	if limit == 0 {
		limit = maxPublicSum
	}
	if len(text) > 2*limit+2 {
		return nil, false
	}
	var short [2*64 + 2]byte // enough for any HMAC
	var sum []byte
	var err error
	switch s.Encoding {
	case "hex":
		sum, err = unhex(text, out)
		return sum, err == nil && (len(sum) == s.size || s.size == 0 && len(sum) > 0)
	case "base64":
		sum, err = strictBase64.AppendDecode(out, append(short[:0], text...))
	case "base64-lenient":
		sum, err = strictRawBase64.AppendDecode(out, append(short[:0], strings.TrimRight(text, "=")...))
	case "base64url":
		sum, err = strictRawURL.AppendDecode(out, append(short[:0], text...))
	default:
		return nil, false
	}
	// The base64 decoders skip line breaks, which would be a second spelling.
	return sum, err == nil && (len(sum) == s.size || s.size == 0 && len(sum) > 0) && !strings.ContainsAny(text, "\r\n")
}

// unhex is hex.AppendDecode for a text.
func unhex(text string, out []byte) ([]byte, error) {
	if len(text)%2 != 0 {
		return nil, hex.ErrLength
	}
	for i := 0; i < len(text); i += 2 {
		high, low := nibbles[text[i]], nibbles[text[i+1]]
		if high|low > 15 {
			return nil, hex.InvalidByteError(text[i])
		}
		out = append(out, high<<4|low)
	}
	return out, nil
}

// nibbles are the values of hex digits; 0xff for any other byte.
var nibbles = func() (out [256]byte) {
	for c := range out {
		out[c] = nibble(byte(c))
	}
	return out
}()

func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

func (s *scheme) encode(sum []byte) string {
	switch s.Encoding {
	case "hex":
		return hex.EncodeToString(sum)
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(sum)
	}
	return base64.StdEncoding.EncodeToString(sum)
}

var (
	errEmptySecret = errors.New("is empty")
	errOtherScheme = errors.New("belongs to another scheme")
)

// key decodes a secret. A secret that carries the required prefix of one scheme
// is a key of that scheme alone: a public key must never serve as an HMAC key.
func (s *scheme) key(secret []byte, all []scheme) ([]byte, error) {
	if s.Key == "" && len(all) == 1 && s.KeyPrefix == "" && s.PrivatePrefix == "" && !s.isPublic() && len(secret) > 0 {
		return secret, nil // as it is
	}
	text := string(secret)
	for i := range all {
		o := &all[i]
		foreign := o.Label != s.Label && o.KeyPrefixRequired && strings.HasPrefix(text, o.KeyPrefix)
		private := o.PrivatePrefix != "" && strings.HasPrefix(text, o.PrivatePrefix)
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

func decodeKey(how, text string) ([]byte, error) {
	var key []byte
	var err error
	switch how {
	case "", "text":
		key = []byte(text)
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
	case "base64-lenient":
		key, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	}
	if err != nil {
		return nil, errors.New("is not " + strings.TrimSuffix(how, "-lenient"))
	}
	if len(key) == 0 {
		return nil, errEmptySecret
	}
	return key, nil
}
