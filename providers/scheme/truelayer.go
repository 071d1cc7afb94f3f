package scheme

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TrueLayer verifies the detached token in the header Tl-Signature. It is written in Go because the
// token signs a canonical form of method, path, headers and body, and the token itself lists the
// headers.
//
// Options: keys_url and hosts (the key set; the token's own address, jku, must be the same), and
// algorithms.
type TrueLayer struct{}

const (
	truelayerHeader = "Tl-Signature"
	truelayerTime   = "X-Tl-Webhook-Timestamp"
)

// truelayerProtected contains the protected header of the token.
type truelayerProtected struct {
	Version string `json:"tl_version"`
	Headers string `json:"tl_headers"`
	Address string `json:"jku"`
}

// Check returns an error for every secret, because TrueLayer signs with a published key.
func (TrueLayer) Check([]byte) error {
	return errors.New("is not used: TrueLayer signs with a published key")
}

// Secretless returns true.
func (TrueLayer) Secretless(Settings) bool { return true }

// Prepare checks the options as [JWT] does.
func (TrueLayer) Prepare(s Settings) error { return JWT{}.Prepare(s) }

// Covers returns the header with the time of the delivery, which every accepted signature covers.
func (TrueLayer) Covers() []string { return []string{"header:" + truelayerTime} }

// Verify checks the token against method, path, headers and body.
func (TrueLayer) Verify(in *Input) (Result, error) {
	text, err := in.needed(truelayerHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	protected, err := truelayerParse(text)
	if err != nil {
		return Result{}, err
	}
	switch {
	case protected.Version != "2":
		return Result{}, refuse(Malformed, "header "+truelayerHeader+" has no token of version 2")
	case protected.Address != in.Settings.One("keys_url"):
		// The address of the token is only compared. It is never used, because anyone can write one.
		return Result{}, refuse(Mismatch, "the token's address of keys (jku) is not the keys_url of the source")
	}
	names := strings.Split(protected.Headers, ",")
	if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, truelayerTime) }) {
		return Result{}, refuse(Malformed, "the token does not cover header "+truelayerTime)
	}
	key, err := truelayerKey(in, text, names)
	if err != nil {
		return Result{}, err
	}
	at, err := time.Parse(time.RFC3339, in.Header.Get(truelayerTime))
	if err != nil {
		return Result{}, refuse(Malformed, "header "+truelayerTime+" is no time")
	}
	return Result{Secret: key, SignedAt: at.UTC()}, in.fresh(at)
}

// truelayerKey verifies the token and returns the id of the key. TrueLayer signs the path of the
// configured address, with or without its last slash, so both are tried.
func truelayerKey(in *Input, text string, names []string) (key string, err error) {
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", refuse(Malformed, "the address cannot be read")
	}
	algorithms := in.algorithms(func(name string) bool { return !symmetric[name] })
	path := u.EscapedPath()
	for _, path := range []string{path, otherSlash(path)} {
		message, err := truelayerMessage(in, path, names)
		if err != nil {
			return "", err
		}
		parsed, err := jose.ParseDetached(text, message, algorithms)
		if err != nil {
			return "", refuse(Malformed, "header "+truelayerHeader+" has no token in an algorithm of the source")
		}
		if key, _, err = in.published(parsed, "header "+truelayerHeader); err == nil {
			return key, nil
		}
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != Mismatch {
			return "", err
		}
	}
	return "", refuse(Mismatch, "no published key matches header "+truelayerHeader)
}

// otherSlash returns the path without its last slash, or with one if it has none.
func otherSlash(path string) string {
	if rest, ok := strings.CutSuffix(path, "/"); ok {
		return rest
	}
	return path + "/"
}

// truelayerParse reads the protected header of a detached token.
func truelayerParse(text string) (out truelayerProtected, err error) {
	first, _, ok := strings.Cut(text, "..")
	plain, err := base64.RawURLEncoding.DecodeString(first)
	if !ok || err != nil || json.Unmarshal(plain, &out) != nil {
		return out, refuse(Malformed, "header "+truelayerHeader+" has no detached token")
	}
	return out, nil
}

// truelayerMessage returns the signed bytes: method and path, the headers as the token names them,
// a line each, and the body.
func truelayerMessage(in *Input, path string, names []string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(strings.ToUpper(in.Method) + " " + path + "\n")
	for _, name := range names {
		value, err := in.needed(http.CanonicalHeaderKey(name), Mismatch)
		if err != nil {
			return nil, err
		}
		out.WriteString(name + ": " + value + "\n")
	}
	out.Write(in.Body)
	return out.Bytes(), nil
}

// Sign sets the time and the token. The secret is a private key in PEM (PKCS #8).
func (TrueLayer) Sign(in *Input, secret []byte) error {
	key, _, err := parsePrivate(secret)
	if err != nil {
		return err
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return errors.New("the address cannot be read")
	}
	in.Header.Set(truelayerTime, in.ReceivedAt.UTC().Format(time.RFC3339))
	message, err := truelayerMessage(in, u.EscapedPath(), []string{truelayerTime})
	if err != nil {
		return err
	}
	text, err := detach(in, key, message, map[jose.HeaderKey]string{
		"tl_version": "2", "tl_headers": truelayerTime, "jku": in.Settings.One("keys_url"),
	})
	if err != nil {
		return err
	}
	in.Header.Set(truelayerHeader, text)
	return nil
}
