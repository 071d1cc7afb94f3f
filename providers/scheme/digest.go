package scheme

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
)

// digest compares the body with Content-Digest (RFC 9530). The header must have at least one digest
// of a supported algorithm, and every such digest must match.
func (in *Input) digest() error {
	text, err := in.joined("Content-Digest")
	if err != nil {
		return err
	}
	if text == "" {
		return refuse(Unsigned, "header Content-Digest is missing")
	}
	digests, err := parseBytes(text)
	if err != nil {
		return refuse(Malformed, "header Content-Digest: "+err.Error())
	}
	known := false
	for name, got := range digests {
		var want []byte
		switch name {
		case "sha-256":
			sum := sha256.Sum256(in.Body)
			want = sum[:]
		case "sha-512":
			sum := sha512.Sum512(in.Body)
			want = sum[:]
		default:
			continue
		}
		known = true
		if !bytes.Equal(got, want) {
			return refuse(Mismatch, "header Content-Digest is of another body")
		}
	}
	if !known {
		return refuse(Malformed, "header Content-Digest has neither sha-256 nor sha-512")
	}
	return nil
}

// ContentDigest checks Content-Digest alone. It is written in Go because the signatures that use
// this header are. It detects damage in transit and proves nothing about the sender, so the source
// must set insecure.
type ContentDigest struct{}

// Check returns an error for every secret, because a digest has no key.
func (ContentDigest) Check([]byte) error { return errors.New("is not used: a digest has no key") }

// Secretless returns true.
func (ContentDigest) Secretless(Settings) bool { return true }

// Prepare requires that the setting insecure is true.
func (ContentDigest) Prepare(s Settings) error {
	if s.One("insecure") != "true" {
		return errors.New("setting insecure must be true: nothing proves who sends these requests")
	}
	return nil
}

// Verify checks the digest.
func (ContentDigest) Verify(in *Input) (Result, error) { return Result{}, in.digest() }

// Sign sets the digest.
func (ContentDigest) Sign(in *Input, _ []byte) error {
	sum := sha256.Sum256(in.Body)
	in.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	return nil
}

// parsePSS parses a public key with the algorithm identifier of RSASSA-PSS.
func parsePSS(der []byte) (*rsa.PublicKey, error) {
	var outer struct {
		Algorithm struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue `asn1:"optional"`
		}
		Key asn1.BitString
	}
	if rest, err := asn1.Unmarshal(der, &outer); err != nil || len(rest) > 0 || !outer.Algorithm.ID.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}) {
		return nil, errors.New("not a key of RSASSA-PSS")
	}
	return x509.ParsePKCS1PublicKey(outer.Key.RightAlign())
}
