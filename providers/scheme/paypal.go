package scheme

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// PayPal verifies PayPal's notifications. It is written in Go because the request names the
// certificate and the signature covers a checksum of the body.
//
// The checksum is a CRC32, so anyone who has seen one delivery can construct another body with the
// same checksum. The transmission must therefore be fresh, its id is part of the event's id, and
// the setting postback makes Oncegate ask PayPal about each request. An effect that moves money
// should fetch the resource from PayPal.
type PayPal struct{}

// Check returns an error for every secret, because PayPal signs with a certificate.
func (PayPal) Check([]byte) error {
	return errors.New("is not used: PayPal signs with a certificate")
}

// Secretless returns true.
func (PayPal) Secretless(Settings) bool { return true }

// Prepare checks the postback settings. webhook_id is a required setting.
func (PayPal) Prepare(settings Settings) error { return checkPostback(settings) }

// Covers returns the signed headers. The signature does not cover the body itself.
func (PayPal) Covers() []string {
	return []string{"header:Paypal-Transmission-Id", "header:Paypal-Transmission-Time"}
}

// paypalCertificate matches the addresses of PayPal's certificates. Their form comes from the
// samples of PayPal's libraries, live and sandbox, with the hosts of the REST API. The path /test
// comes from a test of the Java library.
var paypalCertificate = regexp.MustCompile(`^https://((?:api|api-m)(?:\.sandbox)?\.paypal\.com)/v1/notifications/(?:certs/CERT-[0-9A-Za-z_-]{1,128}|test)$`)

// Verify checks the signature over transmission, webhook and checksum. Then it asks PayPal if the
// setting postback requires it.
func (PayPal) Verify(in *Input) (Result, error) {
	headers := map[string]string{}
	for _, name := range []string{"Paypal-Transmission-Sig", "Paypal-Transmission-Id", "Paypal-Transmission-Time", "Paypal-Cert-Url", "Paypal-Auth-Algo"} {
		reason := Malformed
		if name == "Paypal-Transmission-Sig" {
			reason = Unsigned
		}
		value, err := in.needed(name, reason)
		if err != nil {
			return Result{}, err
		}
		headers[name] = value
	}
	if headers["Paypal-Auth-Algo"] != "SHA256withRSA" {
		return Result{}, refuse(Malformed, "header Paypal-Auth-Algo is not SHA256withRSA")
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(headers["Paypal-Transmission-Sig"])
	if err != nil {
		return Result{}, refuse(Malformed, "header Paypal-Transmission-Sig is not base64")
	}
	at, err := time.Parse(time.RFC3339, headers["Paypal-Transmission-Time"])
	if err != nil {
		return Result{}, refuse(Malformed, "header Paypal-Transmission-Time is no time")
	}
	address := headers["Paypal-Cert-Url"]
	parts := paypalCertificate.FindStringSubmatch(address)
	if parts == nil {
		return Result{}, refuse(Mismatch, "header Paypal-Cert-Url is not an address of PayPal's certificates")
	}
	want := certificateRequest(address, parts[1])
	key, err := in.certificate(want, paypalName)
	if err != nil {
		return Result{}, err
	}
	message := strings.Join([]string{
		headers["Paypal-Transmission-Id"], headers["Paypal-Transmission-Time"], in.Settings.One("webhook_id"),
		strconv.FormatUint(uint64(crc32.ChecksumIEEE(in.Body)), 10),
	}, "|")
	digest := sha256.Sum256([]byte(message))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], sum) != nil {
		return Result{}, refuse(Mismatch, "the certificate does not match header Paypal-Transmission-Sig")
	}
	in.confirm(want)
	if err := in.fresh(at); err != nil {
		return Result{}, err
	}
	return Result{Secret: "certificate", SignedAt: at.UTC()}, in.postback(headers)
}

// paypalName reports whether a certificate has the name under which PayPal signs.
func paypalName(c *x509.Certificate) bool {
	names := append([]string{c.Subject.CommonName}, c.DNSNames...)
	for _, name := range names {
		if name == "messageverificationcerts.paypal.com" || name == "messageverificationcerts.sandbox.paypal.com" {
			return true
		}
	}
	return false
}

// Allowed reports whether an address is https at one of the hosts. A host is an exact name (with
// its port, unless it is the default one), or *.example.com for the names below example.com.
// Addresses with a user or a fragment are never allowed.
func Allowed(address string, hosts []string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.HasSuffix(u.Host, ":") {
		return false
	}
	host := u.Host
	for _, allowed := range hosts {
		below, wild := strings.CutPrefix(allowed, "*")
		if host == allowed || wild && strings.HasSuffix(host, below) && len(host) > len(below) {
			return true
		}
	}
	return false
}
