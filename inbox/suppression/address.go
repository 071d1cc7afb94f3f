package suppression

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/mail"
	"strings"

	"golang.org/x/net/idna"
)

// ErrAddress is returned for a text that is not an address. It does not quote the text.
var ErrAddress = errors.New("not an email address such as ann@example.com")

const maxAddress = 320 // RFC 3696: 64 before the @ and 255 after it

// Normalize returns the form in which addresses are compared: in lower case, with the domain in its ASCII form and
// without a name. Servers may distinguish Ann@ from ann@, but none in use does, and the safe reading suppresses both.
func Normalize(address string) (string, error) {
	parsed, err := mail.ParseAddress(address)
	if err != nil || strings.ContainsAny(address, "\r\n") {
		return "", ErrAddress
	}
	at := strings.LastIndexByte(parsed.Address, '@')
	local, domain := parsed.Address[:at], strings.TrimSuffix(parsed.Address[at+1:], ".")
	if ascii, err := idna.Lookup.ToASCII(domain); err == nil {
		domain = ascii
	}
	out := strings.ToLower(local) + "@" + strings.ToLower(domain)
	if local == "" || domain == "" || len(out) > maxAddress {
		return "", ErrAddress
	}
	return out, nil
}

// digestOf hashes an address in normal form. secret is nil for a plain hash. The words in front keep the secret's other uses
// apart. Stored: never change.
func digestOf(secret []byte, normal string) []byte {
	text := []byte("oncegate suppression\x00" + normal)
	if secret == nil {
		sum := sha256.Sum256(text)
		return sum[:]
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(text)
	return mac.Sum(nil)
}
