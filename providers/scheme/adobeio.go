package scheme

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
)

// AdobeIO verifies Adobe I/O Events. It is written in Go because each request names the paths of
// its public keys on one fixed host.
type AdobeIO struct{}

const adobeHost = "static.adobeioevents.com"

// adobePath matches the paths of keys, in the form that Adobe's library requires.
var adobePath = regexp.MustCompile(`^/prod/keys/pub-key-[0-9A-Za-z-]{1,64}\.pem$`)

// Check returns an error for every secret, because the scheme uses none.
func (AdobeIO) Check([]byte) error {
	return errors.New("is not used: Adobe publishes its keys")
}

// Secretless returns true.
func (AdobeIO) Secretless(Settings) bool { return true }

// Prepare checks nothing, because client_id is a required setting.
func (AdobeIO) Prepare(Settings) error { return nil }

// adobeSignature is one of the two signatures of a request.
type adobeSignature struct {
	number, path string
	sum          []byte
}

// Verify requires that one of the two signatures is valid and that the event is for the configured
// client. It tries the cached keys first, so that it does not wait for an unknown key if the other
// signature is valid.
func (AdobeIO) Verify(in *Input) (Result, error) {
	signatures, err := in.adobeSignatures()
	if err != nil {
		return Result{}, err
	}
	var fault error
	for _, held := range []bool{true, false} {
		fault = nil
		for i := range signatures {
			s := &signatures[i]
			ok, err := in.adobe(s, held)
			if err != nil {
				fault = err
			}
			if ok {
				return Result{Secret: "key " + s.number}, in.adobeClient()
			}
		}
	}
	if fault != nil {
		return Result{}, fault
	}
	return Result{}, refuse(Mismatch, "no key of Adobe's matches either signature")
}

// adobeSignatures reads the signatures from the headers. It leaves out a signature whose key path
// is not one of Adobe's.
func (in *Input) adobeSignatures() ([]adobeSignature, error) {
	var out []adobeSignature
	found := false
	for n := 1; n <= 2; n++ {
		number := strconv.Itoa(n)
		text, err := in.header("X-Adobe-Digital-Signature-" + number)
		if err != nil {
			return nil, err
		}
		path, err := in.header("X-Adobe-Public-Key" + number + "-Path")
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		found = true
		if sum, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && adobePath.MatchString(path) {
			out = append(out, adobeSignature{number, path, sum})
		}
	}
	if !found {
		return nil, refuse(Unsigned, "header X-Adobe-Digital-Signature-1 is missing")
	}
	return out, nil
}

func (in *Input) adobe(s *adobeSignature, held bool) (bool, error) {
	want := KeyRequest{URL: "https://" + adobeHost + s.path, Hosts: []string{adobeHost}, Claimed: true, Held: held, Check: func(document []byte) error {
		_, err := adobeKey(document)
		return err
	}}
	text, err := in.fetch(want)
	switch {
	case held && err != nil:
		return false, nil //nolint:nilerr // Verify fetches the key if no cached key verifies
	case errors.Is(err, ErrNoKey):
		return false, nil
	case err != nil:
		return false, err
	}
	key, err := adobeKey(text)
	if err != nil {
		return false, err
	}
	digest := sha256.Sum256(in.Body)
	ok := rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], s.sum) == nil
	if ok {
		in.confirm(want)
	}
	return ok, nil
}

func adobeKey(document []byte) (*rsa.PublicKey, error) {
	key, err := rsaKey(document)
	if err != nil {
		return nil, errors.New("the key store answered something that is no key")
	}
	return key, nil
}

// adobeClient checks the recipient of the event, if the body names one.
func (in *Input) adobeClient() error {
	var body struct {
		Recipient string `json:"recipient_client_id"`
		CloudOne  string `json:"recipientclientid"`
	}
	// A batch, or a body that is not JSON, names no recipient here. The signature covers it
	// nevertheless.
	_ = json.Unmarshal(in.Body, &body)
	for _, got := range []string{body.Recipient, body.CloudOne} {
		if got != "" && !same(got, in.Settings.One("client_id")) {
			return refuse(Mismatch, "the event is for another client")
		}
	}
	return nil
}
