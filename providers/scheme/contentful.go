package scheme

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Contentful signs method, path, some headers and the body. It is Go because the
// request itself lists which headers are signed.
type Contentful struct{}

// Check takes the secret of 64 characters that Contentful makes.
func (Contentful) Check(secret []byte) error {
	if len(secret) != 64 {
		return errors.New("is not 64 characters long")
	}
	return nil
}

// Prepare has nothing to check.
func (Contentful) Prepare(Settings) error { return nil }

const (
	contentfulHeader = "X-Contentful-Signature"
	contentfulTime   = "X-Contentful-Timestamp"
	contentfulList   = "X-Contentful-Signed-Headers"
	contentfulMax    = 32 // signed headers
)

// Verify compares the signature. The list of signed headers must hold itself and
// the time, or the sender's choice would be the attacker's.
func (Contentful) Verify(in *Input) (Result, error) {
	value, err := in.needed(contentfulHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	stamp, err := in.needed(contentfulTime, Malformed)
	if err != nil {
		return Result{}, err
	}
	list, err := in.needed(contentfulList, Malformed)
	if err != nil {
		return Result{}, err
	}
	at, ok := milliseconds(stamp)
	if !ok {
		return Result{}, refuse(Malformed, "header "+contentfulTime+" has no timestamp in milliseconds")
	}
	sum, decodeErr := hex.DecodeString(value)
	if decodeErr != nil || len(sum) != sha256.Size {
		return Result{}, refuse(Malformed, "header "+contentfulHeader+" is not a signature in hex")
	}
	message, err := contentfulMessage(in, list)
	if err != nil {
		return Result{}, err
	}
	name, ok := in.match(func(secret []byte) bool { return hmac.Equal(contentfulSum(in, secret, message), sum) })
	if !ok {
		return Result{}, refuse(Mismatch, "no live secret matches header "+contentfulHeader)
	}
	return Result{Secret: name, SignedAt: at}, in.fresh(at)
}

func contentfulMessage(in *Input, list string) (string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		names = append(names, strings.ToLower(strings.TrimSpace(name)))
	}
	switch {
	case len(names) > contentfulMax:
		return "", refuse(Malformed, "header "+contentfulList+" has more than 32 names")
	case !slices.Contains(names, strings.ToLower(contentfulTime)), !slices.Contains(names, strings.ToLower(contentfulList)):
		return "", refuse(Malformed, "header "+contentfulList+" leaves out the time or itself")
	}
	slices.Sort(names)
	lines := make([]string, 0, len(names))
	for _, name := range names {
		value, err := in.header(name)
		if err != nil {
			return "", err
		}
		if _, there := in.Header[http.CanonicalHeaderKey(name)]; !there {
			return "", refuse(Malformed, "a header that is said to be signed is missing")
		}
		lines = append(lines, name+":"+strings.TrimSpace(value))
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", refuse(Mismatch, "the address cannot be read")
	}
	return in.Method + "\n" + u.RequestURI() + "\n" + strings.Join(lines, ";") + "\n", nil
}

func contentfulSum(in *Input, secret []byte, message string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(message))
	mac.Write(in.Body)
	return mac.Sum(nil)
}

// Sign signs as Contentful does, with the headers that say what the event is.
func (Contentful) Sign(in *Input, secret []byte) error {
	names := []string{strings.ToLower(contentfulList), strings.ToLower(contentfulTime)}
	for _, name := range []string{"Content-Type", "X-Contentful-Topic"} {
		if in.Header.Get(name) != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	list := strings.Join(names, ",")
	in.Header.Set(contentfulList, list)
	in.Header.Set(contentfulTime, strconv.FormatInt(in.ReceivedAt.UnixMilli(), 10))
	message, err := contentfulMessage(in, list)
	if err != nil {
		return err
	}
	in.Header.Set(contentfulHeader, hex.EncodeToString(contentfulSum(in, secret, message)))
	return nil
}
