package proxies

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"time"
)

// certificates are the proxy's own one, and one of a sender that proves itself by it.
type certificates struct {
	roots *x509.CertPool

	// sender is the sender's certificate in DER.
	sender []byte
}

// senderName is the name in the sender's certificate.
const senderName = "sender.example"

// writeCertificates makes self-signed certificates. The proxy's is written into the files of the places, and the sender's as
// an authority into the path.
func (p *places) writeCertificates(authority string) (*certificates, error) {
	der, key, err := signItself("localhost", x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	sender, _, err := signItself(senderName, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for path, content := range map[string][]byte{
		p.certificate: certificate, p.key: private, p.both: slices.Concat(certificate, private),
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sender}),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, fmt.Errorf("writing a certificate: %w", err)
		}
	}
	c := &certificates{roots: x509.NewCertPool(), sender: sender}
	c.roots.AppendCertsFromPEM(certificate)
	return c, nil
}

func signItself(name string, use x509.ExtKeyUsage) (der, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		// The doctor warns of a certificate that ends soon.
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{use},
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private); err != nil {
		return nil, nil, fmt.Errorf("making a certificate: %w", err)
	}
	if key, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return der, key, nil
}
