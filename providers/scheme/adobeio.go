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

var adobePath = regexp.MustCompile(`^/[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*(\.[A-Za-z0-9]+)?$`)

// Check refuses: there is no secret.
func (AdobeIO) Check([]byte) error {
	return errors.New("is not used: Adobe publishes its keys")
}

// Secretless holds.
func (AdobeIO) Secretless(Settings) bool { return true }

// Prepare has nothing to check: client_id is a required setting.
func (AdobeIO) Prepare(Settings) error { return nil }

// Verify wants one of the two signatures to be right, and the event to be for
// our client.
func (AdobeIO) Verify(in *Input) (Result, error) {
	found := false
	var fault error
	for n := 1; n <= 2; n++ {
		number := strconv.Itoa(n)
		text, err := in.header("X-Adobe-Digital-Signature-" + number)
		if err != nil {
			return Result{}, err
		}
		path, err := in.header("X-Adobe-Public-Key" + number + "-Path")
		if err != nil {
			return Result{}, err
		}
		if text == "" {
			continue
		}
		found = true
		sum, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || !adobePath.MatchString(path) {
			continue
		}
		ok, err := in.adobe(path, sum)
		if err != nil {
			fault = err
		}
		if ok {
			return Result{Secret: "key " + number}, in.adobeClient()
		}
	}
	switch {
	case !found:
		return Result{}, refuse(Unsigned, "header X-Adobe-Digital-Signature-1 is missing")
	case fault != nil:
		return Result{}, fault
	}
	return Result{}, refuse(Mismatch, "no key of Adobe's matches either signature")
}

func (in *Input) adobe(path string, sum []byte) (bool, error) {
	text, err := in.fetch(KeyRequest{URL: "https://" + adobeHost + path, Hosts: []string{adobeHost}})
	if errors.Is(err, ErrNoKey) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	key, err := rsaKey(text)
	if err != nil {
		return false, errors.New("the key store answered something that is no key")
	}
	digest := sha256.Sum256(in.Body)
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], sum) == nil, nil
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
