package scheme

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Contentful verifies a signature over method, path, some headers and the body. It is written in Go
// because the request itself lists the signed headers.
type Contentful struct{}

// Check requires a secret of 64 characters, as Contentful generates it.
func (Contentful) Check(secret []byte) error {
	if len(secret) != 64 {
		return errors.New("is not 64 characters long")
	}
	return nil
}

// Prepare checks nothing.
func (Contentful) Prepare(Settings) error { return nil }

const (
	contentfulHeader = "X-Contentful-Signature"
	contentfulTime   = "X-Contentful-Timestamp"
	contentfulList   = "X-Contentful-Signed-Headers"
	contentfulMax    = 32 // signed headers
)

// Verify compares the signature. It requires that the list of signed headers contains itself and
// the time. Otherwise an attacker could change the list or the time.
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
	messages, err := contentfulMessages(in, list)
	if err != nil {
		return Result{}, err
	}
	name, ok := in.match(func(secret []byte) bool {
		return slices.ContainsFunc(messages, func(message string) bool { return hmac.Equal(contentfulSum(in, secret, message), sum) })
	})
	if !ok {
		return Result{}, refuse(Mismatch, "no live secret matches header "+contentfulHeader)
	}
	return Result{Secret: name, SignedAt: at}, in.fresh(at)
}

// contentfulMessages returns the texts that Contentful may have signed: one, or two if the address
// has two encodings.
func contentfulMessages(in *Input, list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		names = append(names, strings.ToLower(strings.TrimSpace(name)))
	}
	switch {
	case len(names) > contentfulMax:
		return nil, refuse(Malformed, "header "+contentfulList+" has more than 32 names")
	case !slices.Contains(names, strings.ToLower(contentfulTime)), !slices.Contains(names, strings.ToLower(contentfulList)):
		return nil, refuse(Malformed, "header "+contentfulList+" leaves out the time or itself")
	}
	slices.Sort(names)
	lines := make([]string, 0, len(names))
	for _, name := range names {
		value, err := in.header(name)
		if err != nil {
			return nil, err
		}
		if _, there := in.Header[http.CanonicalHeaderKey(name)]; !there {
			return nil, refuse(Malformed, "a header that is said to be signed is missing")
		}
		lines = append(lines, name+":"+strings.TrimSpace(value))
	}
	u, err := url.Parse(in.URL)
	if err != nil {
		return nil, refuse(Mismatch, "the address cannot be read")
	}
	var out []string
	for _, address := range slices.Compact([]string{contentfulAddress(u), u.RequestURI()}) {
		out = append(out, in.Method+"\n"+address+"\n"+strings.Join(lines, ";")+"\n")
	}
	return out, nil
}

// contentfulAddress writes path and query as Contentful's own library does: it escapes the query
// like a single value, and then escapes path and query together once more.
func contentfulAddress(u *url.URL) string {
	path, query, found := strings.Cut(u.RequestURI(), "?")
	query, _, _ = strings.Cut(query, "?") // the library drops everything after a second question mark
	if found && query != "" {
		path += "?" + escapeAllBut(query, "")
	}
	return escapeAllBut(path, ";,/?:@&=+$#")
}

// escapeAllBut escapes as JavaScript's functions do: all bytes except letters, digits, -_.!~*'()
// and those in kept.
func escapeAllBut(s, kept string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.!~*'()"+kept, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func contentfulSum(in *Input, secret []byte, message string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(message))
	mac.Write(in.Body)
	return mac.Sum(nil)
}

// Sign signs as Contentful does. It includes the headers that describe the event.
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
	messages, err := contentfulMessages(in, list)
	if err != nil {
		return err
	}
	in.Header.Set(contentfulHeader, hex.EncodeToString(contentfulSum(in, secret, messages[0])))
	return nil
}
