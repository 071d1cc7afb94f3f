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

// PayPal verifies PayPal's notifications. It is Go because the certificate is
// named by the request and what is signed is a checksum of the body.
//
// The checksum is a CRC32: who has seen one delivery can make another body of the
// same checksum. So the transmission must be fresh, its id is part of the event's,
// PayPal can be asked about each request (setting postback), and an effect that
// moves money is to fetch the resource.
type PayPal struct{}

// Check refuses: there is no secret.
func (PayPal) Check([]byte) error {
	return errors.New("is not used: PayPal signs with a certificate")
}

// Secretless holds.
func (PayPal) Secretless(Settings) bool { return true }

// Prepare checks the postback; webhook_id is a required setting.
func (PayPal) Prepare(settings Settings) error { return checkPostback(settings) }

// Covers names what the signature covers, the body not among it.
func (PayPal) Covers() []string {
	return []string{"header:Paypal-Transmission-Id", "header:Paypal-Transmission-Time"}
}

// paypalCertificate is how the addresses of PayPal's certificates are written in the
// samples of its libraries, live and in the sandbox, with the hosts of its REST API. The
// one address of another form is that of the test of its library for Java.
var paypalCertificate = regexp.MustCompile(`^https://((?:api|api-m)(?:\.sandbox)?\.paypal\.com)/v1/notifications/(?:certs/CERT-[0-9A-Za-z_-]{1,128}|test)$`)

// Verify checks the signature over transmission, webhook and checksum, and then
// asks PayPal, where the source wants that.
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

// paypalName wants the name under which PayPal signs.
func paypalName(c *x509.Certificate) bool {
	names := append([]string{c.Subject.CommonName}, c.DNSNames...)
	for _, name := range names {
		if name == "messageverificationcerts.paypal.com" || name == "messageverificationcerts.sandbox.paypal.com" {
			return true
		}
	}
	return false
}

// Allowed reports whether an address is https at one of the hosts: exact names
// (with their port, if it is not the usual one), or *.example.com for the names
// below one. Users and fragments are none that a provider writes.
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
