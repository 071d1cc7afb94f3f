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

// authority vouches for the certificate of the servers that encrypt.
type authority struct {
	certificate tls.Certificate // of 127.0.0.1, signed by itself: the binary is told to believe it
	foreign     tls.Certificate // the same, and nobody is told
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

// writeRoots writes what the binary is told to believe.
func (a *authority) writeRoots(path string) error {
	block := &pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Certificate[0]}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return fmt.Errorf("writing the roots: %w", err)
	}
	return nil
}
