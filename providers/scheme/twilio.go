package scheme

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio's choice
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"
)

// Twilio verifies a signature over the address and the sorted fields of a form. It is written in Go
// because Twilio may sign another spelling of the address than the request shows: with or without a
// port, and with three encodings of the query.
type Twilio struct{}

// Check accepts any secret, the account's auth token.
func (Twilio) Check([]byte) error { return nil }

// Prepare checks nothing.
func (Twilio) Prepare(Settings) error { return nil }

const (
	twilioHeader = "X-Twilio-Signature"
	twilioBody   = "bodySHA256"
)

// Verify compares the signature with each spelling's signature.
func (Twilio) Verify(in *Input) (Result, error) {
	value, err := in.needed(twilioHeader, Unsigned)
	if err != nil {
		return Result{}, err
	}
	sum, decodeErr := base64.StdEncoding.Strict().DecodeString(value)
	if decodeErr != nil || len(sum) != sha1.Size {
		return Result{}, refuse(Malformed, "header "+twilioHeader+" is not a signature in base64")
	}
	fields, err := twilioFields(in)
	if err != nil {
		return Result{}, err
	}
	spellings := twilioSpellings(in.URL)
	matched, found := "", false
	for _, secret := range in.Secrets {
		for _, address := range spellings {
			if hmac.Equal(twilioSum(secret.Value, address, fields), sum) && !found {
				matched, found = secret.Name, true
			}
		}
	}
	if !found {
		return Result{}, refuse(Mismatch, "no live secret matches header "+twilioHeader+", for any spelling of the address")
	}
	return Result{Secret: matched}, nil
}

func twilioSum(secret []byte, address, fields string) []byte {
	mac := hmac.New(sha1.New, secret)
	mac.Write([]byte(address))
	mac.Write([]byte(fields))
	return mac.Sum(nil)
}

// twilioFields returns the part of the body that is signed after the address. For a body that is
// not a form, it returns nothing and compares the body with the digest in the address.
func twilioFields(in *Input) (string, error) {
	u, err := url.Parse(in.URL)
	if err != nil {
		return "", refuse(Mismatch, "the address cannot be read")
	}
	if digests := u.Query()[twilioBody]; len(digests) > 0 {
		sum := sha256.Sum256(in.Body)
		if len(digests) > 1 || !same(strings.ToLower(digests[0]), hex.EncodeToString(sum[:])) {
			return "", refuse(Mismatch, "the body is not the one whose digest is in the address")
		}
		return "", nil
	}
	if len(in.Body) == 0 {
		return "", nil
	}
	media, _, err := mime.ParseMediaType(in.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return "", refuse(Mismatch, "the body is no form, and the address has no "+twilioBody)
	}
	form, err := readForm(in.Body)
	if err != nil {
		return "", refuse(Mismatch, "the body is no form")
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Clone(form[name])
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			b.WriteString(name)
			b.WriteString(value)
		}
	}
	return b.String(), nil
}

// twilioSpellings returns the spellings of the address that Twilio may have signed.
func twilioSpellings(address string) []string {
	out := []string{address}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return out
	}
	port := map[string]string{"https": "443", "http": "80"}[u.Scheme]
	if u.Port() != "" {
		port = u.Port()
	}
	user := ""
	if u.User != nil {
		user = u.User.String() + "@"
	}
	queries := []string{""}
	if u.RawQuery != "" {
		queries = []string{"?" + u.RawQuery, "?" + strings.ReplaceAll(u.RawQuery, "'", "%27"), "?" + spelledOut(u.RawQuery)}
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	for _, host := range []string{u.Hostname(), u.Hostname() + ":" + port} {
		for _, query := range queries {
			out = append(out, u.Scheme+"://"+user+host+path+query)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// spelledOut encodes each part of a query as encodeURIComponent does.
func spelledOut(query string) string {
	var out []string
	keep := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		plainName, err := url.QueryUnescape(name)
		if err != nil {
			return query
		}
		plainValue, err := url.QueryUnescape(value)
		if err != nil {
			return query
		}
		out = append(out, keep.Replace(url.QueryEscape(plainName))+"="+keep.Replace(url.QueryEscape(plainValue)))
	}
	return strings.Join(out, "&")
}

// Sign signs as Twilio does, over the address as given. For a body that is not a form, it first
// adds the digest to the address.
func (Twilio) Sign(in *Input, secret []byte) error {
	media, _, err := mime.ParseMediaType(in.Header.Get("Content-Type"))
	if len(in.Body) > 0 && (err != nil || media != "application/x-www-form-urlencoded") {
		u, err := url.Parse(in.URL)
		if err != nil {
			return errors.New("the address cannot be read")
		}
		query := u.Query()
		sum := sha256.Sum256(in.Body)
		query.Set(twilioBody, hex.EncodeToString(sum[:]))
		u.RawQuery = query.Encode()
		in.URL = u.String()
	}
	fields, err := twilioFields(in)
	if err != nil {
		return err
	}
	in.Header.Set(twilioHeader, base64.StdEncoding.EncodeToString(twilioSum(secret, in.URL, fields)))
	return nil
}
