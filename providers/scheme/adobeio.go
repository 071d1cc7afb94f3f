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

// AdobeIO verifies Adobe I/O Events. It is Go because the public keys are at
// paths that the request names, below one fixed host.
type AdobeIO struct{}

const adobeHost = "static.adobeioevents.com"

// adobePath is how Adobe's library says that the paths are written.
var adobePath = regexp.MustCompile(`^/prod/keys/pub-key-[0-9A-Za-z-]{1,64}\.pem$`)

// Check refuses: there is no secret.
func (AdobeIO) Check([]byte) error {
	return errors.New("is not used: Adobe publishes its keys")
}

// Secretless holds.
func (AdobeIO) Secretless(Settings) bool { return true }

// Prepare has nothing to check: client_id is a required setting.
func (AdobeIO) Prepare(Settings) error { return nil }

// adobeSignature is one of the two signatures of a request.
type adobeSignature struct {
	number, path string
	sum          []byte
}

// Verify wants one of the two signatures to be right, and the event to be for our
// client. Keys in hand come first: one that is yet unknown holds nothing up where the
// other is enough.
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

// adobeSignatures reads the headers. A signature whose key is not at a path of Adobe's
// is left out.
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
		return false, nil //nolint:nilerr // it is asked for when nothing in hand verifies
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

// adobeClient checks whom the event is for, where it says.
func (in *Input) adobeClient() error {
	var body struct {
		Recipient string `json:"recipient_client_id"`
		CloudOne  string `json:"recipientclientid"`
	}
	// A batch, or no JSON, names nobody here and is signed all the same.
	_ = json.Unmarshal(in.Body, &body)
	for _, got := range []string{body.Recipient, body.CloudOne} {
		if got != "" && !same(got, in.Settings.One("client_id")) {
			return refuse(Mismatch, "the event is for another client")
		}
	}
	return nil
}
