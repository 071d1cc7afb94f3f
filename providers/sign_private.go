package providers

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // some providers sign with RSA-SHA1
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
)

// announce sets the headers that the provider always sends, such as a version.
func (p *Provider) announce(req *Request) {
	for _, m := range p.spec.Verify.Require {
		if m.Header != "" && m.Equals != "" && !m.Absent && req.Header.Get(m.Header) == "" {
			req.Header.Set(m.Header, m.Equals)
		}
	}
}

// isPrivatePEM reports whether a secret is a private key. Only tests and operators who generated
// the key pair themselves have one.
func isPrivatePEM(secret []byte) bool {
	return bytes.Contains(secret, []byte("-----BEGIN PRIVATE KEY-----"))
}

// signPrivate signs with a private key in PKCS #8.
func (s *scheme) signPrivate(secret, message []byte) ([]byte, error) {
	block, _ := pem.Decode(secret)
	if block == nil {
		return nil, errors.New("the private key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the private key is not one of PKCS #8")
	}
	switch key := parsed.(type) {
	case ed25519.PrivateKey:
		if s.Algorithm == "ed25519" {
			return ed25519.Sign(key, message), nil
		}
	case *ecdsa.PrivateKey:
		if s.Algorithm == "ecdsa-p256-sha256" {
			digest := sha256.Sum256(message)
			return ecdsa.SignASN1(rand.Reader, key, digest[:])
		}
	case *rsa.PrivateKey:
		switch s.Algorithm {
		case "rsa-sha1":
			digest := sha1.Sum(message) //nolint:gosec // the provider's choice
			return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA1, digest[:])
		case "rsa-sha256":
			digest := sha256.Sum256(message)
			return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		}
	}
	return nil, errors.New("the private key is none of " + s.Algorithm)
}
