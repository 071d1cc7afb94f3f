package mail

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// authority makes the certificates of the servers that encrypt.
type authority struct {
	certificate tls.Certificate // of 127.0.0.1, self-signed; the binary trusts it
	foreign     tls.Certificate // the same, but the binary does not trust it
}

func newAuthority() (*authority, error) {
	certificate, err := signItself()
	if err != nil {
		return nil, err
	}
	foreign, err := signItself()
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, foreign: foreign}, nil
}

func signItself() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sink.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// writeRoots writes the certificates that the binary trusts.
func (a *authority) writeRoots(path string) error {
	block := &pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Certificate[0]}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return fmt.Errorf("writing the roots: %w", err)
	}
	return nil
}
