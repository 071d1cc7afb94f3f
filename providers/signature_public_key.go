package providers

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // some providers sign with RSA-SHA1
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// maxPublicSum is the length of the longest public-key signature, in bytes: RSA with 8192 bits.
const maxPublicSum = 1024

// publicKey is a key that can only verify.
type publicKey interface {
	verify(message, sum []byte) bool
}

type ed25519Key ed25519.PublicKey

func (k ed25519Key) verify(message, sum []byte) bool {
	return ed25519.Verify(ed25519.PublicKey(k), message, sum)
}

type rsaKey struct {
	*rsa.PublicKey
	hash crypto.Hash
}

func (k rsaKey) verify(message, sum []byte) bool {
	var digest []byte
	if k.hash == crypto.SHA1 {
		d := sha1.Sum(message) //nolint:gosec // the provider's choice
		digest = d[:]
	} else {
		d := sha256.Sum256(message)
		digest = d[:]
	}
	return rsa.VerifyPKCS1v15(k.PublicKey, k.hash, digest, sum) == nil
}

type ecdsaKey struct{ *ecdsa.PublicKey }

func (k ecdsaKey) verify(message, sum []byte) bool {
	digest := sha256.Sum256(message)
	return ecdsa.VerifyASN1(k.PublicKey, digest[:], sum)
}

// isPublic reports whether the scheme's keys can only verify.
func (s *scheme) isPublic() bool { return s.new == nil }

// public parses a decoded public key.
func (s *scheme) public(key []byte) (publicKey, error) {
	switch s.Algorithm {
	case "ed25519":
		if len(key) != ed25519.PublicKeySize {
			return nil, errors.New("is not a public key of 32 bytes")
		}
		return ed25519Key(key), nil
	case "ecdsa-p256-sha256":
		parsed, err := x509.ParsePKIXPublicKey(key)
		if err != nil {
			return nil, errors.New("is not a public key")
		}
		public, ok := parsed.(*ecdsa.PublicKey)
		if !ok || public.Curve != elliptic.P256() {
			return nil, errors.New("is not a public key of P-256")
		}
		return ecdsaKey{public}, nil
	case "rsa-sha1", "rsa-sha256":
		parsed, err := x509.ParsePKIXPublicKey(key)
		if err != nil {
			return nil, errors.New("is not a public key")
		}
		public, ok := parsed.(*rsa.PublicKey)
		if !ok {
			return nil, errors.New("is not a public RSA key")
		}
		if public.Size() < 256 || public.Size() > maxPublicSum {
			return nil, errors.New("is an RSA key of less than 2048 or more than 8192 bits")
		}
		hash := crypto.SHA256
		if s.Algorithm == "rsa-sha1" {
			hash = crypto.SHA1
		}
		return rsaKey{public, hash}, nil
	}
	return nil, errors.New("has no such algorithm")
}

// decodePEM returns the only public key of a PEM text. It accepts a literal \n for a line break,
// because environment variables often cannot contain line breaks.
func decodePEM(text string) ([]byte, error) {
	block, rest := pem.Decode([]byte(strings.ReplaceAll(text, `\n`, "\n")))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("is not one public key in PEM")
	}
	return block.Bytes, nil
}
