package scheme

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"
)

// maxChain is how many certificates of a document are read.
const maxChain = 8

// certificateRequest returns the key request for a chain at an address that the request under
// verification names.
func certificateRequest(address, host string) KeyRequest {
	return KeyRequest{URL: address, Hosts: []string{host}, Claimed: true, Check: func(document []byte) error {
		_, err := parseChain(document)
		return err
	}}
}

// certificate fetches a chain and returns the key of its first certificate. It checks the root, the
// validity period, and that named accepts the certificate. The roots that a source pins replace the
// system's.
func (in *Input) certificate(want KeyRequest, named func(*x509.Certificate) bool) (*rsa.PublicKey, error) {
	text, err := in.fetch(want)
	if errors.Is(err, ErrNoKey) {
		return nil, refuse(Mismatch, "the certificate that the request names does not exist")
	}
	if err != nil {
		return nil, err
	}
	chain, err := parseChain(text)
	if err != nil {
		return nil, err
	}
	roots, err := in.roots()
	if err != nil {
		return nil, err
	}
	rest := x509.NewCertPool()
	for _, c := range chain[1:] {
		rest.AddCert(c)
	}
	leaf := chain[0]
	at := in.ReceivedAt
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: rest, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		return nil, refuse(Mismatch, chainFault(err, leaf, at))
	}
	if !named(leaf) {
		return nil, refuse(Mismatch, "the certificate that the request names is another's")
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, refuse(Mismatch, "the certificate that the request names has no RSA key")
	}
	return key, nil
}

func chainFault(err error, leaf *x509.Certificate, at time.Time) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired || at.After(leaf.NotAfter) {
		return "the certificate that the request names has expired"
	}
	return "the certificate that the request names does not lead to a trusted root"
}

// roots returns the certificates of the setting roots, in PEM, or nil for the system's roots.
func (in *Input) roots() (*x509.CertPool, error) {
	if len(in.Settings["roots"]) == 0 {
		return nil, nil //nolint:nilnil // nil means the system's to crypto/x509
	}
	pool := x509.NewCertPool()
	for _, text := range in.Settings["roots"] {
		if !pool.AppendCertsFromPEM([]byte(text)) {
			return nil, errors.New("setting roots contains no certificate")
		}
	}
	return pool, nil
}

var errNoCertificate = errors.New("the key store answered something that is no certificate")

// parseChain parses the certificates of a document. It returns an error if there is none.
func parseChain(text []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for len(chain) < maxChain {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, errNoCertificate
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errNoCertificate
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errNoCertificate
	}
	return chain, nil
}
