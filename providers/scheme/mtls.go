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

// MTLS takes requests whose client certificate a trusted proxy vouches for. It
// is Go because the proof is a certificate, which the proxy hands on in a header:
// Client-Cert of RFC 9440, or X-Forwarded-Client-Cert.
type MTLS struct{}

// Check refuses: there is no secret.
func (MTLS) Check([]byte) error {
	return errors.New("is not used: the client's certificate is the proof")
}

// Secretless holds.
func (MTLS) Secretless(Settings) bool { return true }

// Prepare checks the authorities and the names.
func (MTLS) Prepare(s Settings) error {
	pool := x509.NewCertPool()
	for _, text := range s["ca"] {
		if !pool.AppendCertsFromPEM([]byte(text)) {
			return errors.New("setting ca holds no certificate in PEM")
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

func (in *Input) clientCertificate() (*x509.Certificate, error) {
	text, err := in.header("Client-Cert")
	if err != nil {
		return nil, err
	}
	var der []byte
	if text != "" {
		inner, ok := strings.CutPrefix(text, ":")
		inner, closed := strings.CutSuffix(inner, ":")
		if !ok || !closed {
			return nil, refuse(Malformed, "header Client-Cert is not written as RFC 9440 says")
		}
		if der, err = base64.StdEncoding.DecodeString(inner); err != nil {
			return nil, refuse(Malformed, "header Client-Cert is not base64")
		}
	} else {
		forwarded, err := in.needed("X-Forwarded-Client-Cert", Unsigned)
		if err != nil {
			return nil, err
		}
		if der, err = forwardedCertificate(forwarded); err != nil {
			return nil, err
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, refuse(Malformed, "the client's certificate cannot be read")
	}
	return cert, nil
}

// forwardedCertificate reads Envoy's form: the last element is the nearest
// proxy's, and its Cert a PEM, percent-encoded.
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
