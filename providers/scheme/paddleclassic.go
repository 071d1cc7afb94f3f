package scheme

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the provider's choice
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// PaddleClassic verifies the alerts of Paddle's old product. It is written in Go because the signed
// text is the sorted form in PHP's serialization of an array.
type PaddleClassic struct{}

// Check requires the vendor's public key.
func (PaddleClassic) Check(secret []byte) error {
	_, err := rsaKey(secret)
	return err
}

// Prepare checks nothing.
func (PaddleClassic) Prepare(Settings) error { return nil }

// rsaKey parses a public key in PEM. It accepts a literal \n for a line break.
func rsaKey(secret []byte) (*rsa.PublicKey, error) {
	block, rest := pem.Decode([]byte(strings.ReplaceAll(string(secret), `\n`, "\n")))
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("is not a public key in PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(*rsa.PublicKey)
	if err != nil || !ok || key.Size() < 128 || key.Size() > 1024 {
		return nil, errors.New("is not a public RSA key")
	}
	return key, nil
}

// serialize writes the fields as PHP does. Lengths are in bytes.
func serialize(form url.Values) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(form)), func(name string) bool { return name == "p_signature" })
	var b strings.Builder
	text := func(s string) { b.WriteString("s:" + strconv.Itoa(len(s)) + `:"` + s + `";`) }
	b.WriteString("a:" + strconv.Itoa(len(names)) + ":{")
	for _, name := range names {
		text(name)
		text(form.Get(name))
	}
	b.WriteString("}")
	return b.String()
}

// maxFields limits the fields of a form.
const maxFields = 1000

// Verify checks the form's signature.
func (PaddleClassic) Verify(in *Input) (Result, error) {
	if strings.Count(string(in.Body), "&") >= maxFields {
		return Result{}, refuse(Malformed, "the form has too many fields")
	}
	form, err := url.ParseQuery(string(in.Body))
	if err != nil {
		return Result{}, refuse(Malformed, "the body is not a form")
	}
	for name, values := range form {
		if len(values) > 1 {
			return Result{}, refuse(Malformed, "the form has a field twice")
		}
		if n, err := strconv.Atoi(name); err == nil && strconv.Itoa(n) == name {
			return Result{}, refuse(Malformed, "the form has a field that is a number")
		}
	}
	text := form.Get("p_signature")
	if text == "" {
		return Result{}, refuse(Unsigned, "form p_signature is missing")
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Result{}, refuse(Malformed, "form p_signature is not base64")
	}
	digest := sha1.Sum([]byte(serialize(form))) //nolint:gosec // the provider's choice
	for _, s := range in.Secrets {
		key, err := rsaKey(s.Value)
		if err == nil && rsa.VerifyPKCS1v15(key, crypto.SHA1, digest[:], sum) == nil {
			return Result{Secret: s.Name}, nil
		}
	}
	return Result{}, refuse(Mismatch, "no live secret matches form p_signature")
}
