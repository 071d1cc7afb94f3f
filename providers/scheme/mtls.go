package scheme

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// A proxy can pass on a client's certificate in the header of RFC 9440 or in Envoy's.
const (
	clientCert          = "Client-Cert"
	forwardedClientCert = "X-Forwarded-Client-Cert"
)

// MTLS accepts requests whose client certificate a trusted proxy passes on. It is written in Go
// because the proof is a certificate in a header. The source must say which header the proxy
// writes: the proxy removes that header from what clients send, but not the other one.
type MTLS struct{}

// Check returns an error for every secret, because the scheme uses none.
func (MTLS) Check([]byte) error {
	return errors.New("is not used: the client's certificate is the proof")
}

// Secretless returns true.
func (MTLS) Secretless(Settings) bool { return true }

// Prepare checks the header and the authorities.
func (MTLS) Prepare(s Settings) error {
	if header := s.One("certificate_header"); header != clientCert && header != forwardedClientCert {
		return errors.New("setting certificate_header must be " + clientCert + " or " + forwardedClientCert + ", whichever the proxy writes")
	}
	pool := x509.NewCertPool()
	for _, text := range s["ca"] {
		if !pool.AppendCertsFromPEM([]byte(text)) {
			return errors.New("setting ca contains no certificate in PEM")
		}
	}
	return nil
}

// Verify checks chain, purpose, time and name of the certificate.
func (MTLS) Verify(in *Input) (Result, error) {
	if !in.Proxied {
		return Result{}, refuse(Unsigned, "the request did not come through a trusted proxy")
	}
	cert, err := in.clientCertificate()
	if err != nil {
		return Result{}, err
	}
	roots := x509.NewCertPool()
	for _, text := range in.Settings["ca"] {
		roots.AppendCertsFromPEM([]byte(text))
	}
	if _, err := cert.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: in.ReceivedAt, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return Result{}, refuse(Mismatch, chainFault(err, cert, in.ReceivedAt))
	}
	for _, name := range in.Settings["san_dns"] {
		if slices.ContainsFunc(cert.DNSNames, func(s string) bool { return strings.EqualFold(s, name) }) {
			return Result{Secret: name}, nil
		}
	}
	return Result{}, refuse(Mismatch, "the client's certificate has another name")
}

// clientCertificate reads the certificate from the header that the proxy writes. It refuses a
// request with the other header, because only a client can have sent that one.
func (in *Input) clientCertificate() (*x509.Certificate, error) {
	header, other, read := clientCert, forwardedClientCert, rfc9440Certificate
	if in.Settings.One("certificate_header") == forwardedClientCert {
		header, other, read = forwardedClientCert, clientCert, forwardedCertificate
	}
	if in.Header.Values(other) != nil {
		return nil, refuse(Mismatch, "header "+other+" is not the one that the proxy writes, and must not be there")
	}
	value, err := in.needed(header, Unsigned)
	if err != nil {
		return nil, err
	}
	der, err := read(value)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, refuse(Malformed, "the client's certificate cannot be read")
	}
	return cert, nil
}

// rfc9440Certificate decodes a byte sequence of structured fields.
func rfc9440Certificate(value string) ([]byte, error) {
	inner, ok := strings.CutPrefix(value, ":")
	inner, closed := strings.CutSuffix(inner, ":")
	if !ok || !closed {
		return nil, refuse(Malformed, "header Client-Cert is not written as RFC 9440 says")
	}
	der, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return nil, refuse(Malformed, "header Client-Cert is not base64")
	}
	return der, nil
}

// forwardedCertificate decodes Envoy's header. The last element is from the nearest proxy, and its
// Cert is percent-encoded PEM.
func forwardedCertificate(value string) ([]byte, error) {
	elements := strings.Split(value, ",")
	for pair := range strings.SplitSeq(elements[len(elements)-1], ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !strings.EqualFold(name, "Cert") {
			continue
		}
		plain, err := url.PathUnescape(strings.Trim(text, `"`))
		if err != nil {
			break
		}
		if block, _ := pem.Decode([]byte(plain)); block != nil && block.Type == "CERTIFICATE" {
			return block.Bytes, nil
		}
	}
	return nil, refuse(Malformed, "header X-Forwarded-Client-Cert has no certificate that can be read")
}
