package scheme

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the provider's choice
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Braintree verifies a form that contains XML in base64. It is written in Go because the signing
// key is a digest of the private key, the form has several pairs of key and signature of which one
// is for the configured key, and the event data is inside the XML.
type Braintree struct{}

var (
	braintreePayload   = regexp.MustCompile(`^[A-Za-z0-9+=/\n]+$`)
	braintreeChallenge = regexp.MustCompile(`^[a-f0-9]{20,32}$`)
)

// Check accepts any private key.
func (Braintree) Check([]byte) error { return nil }

// Prepare checks the setting public_key.
func (Braintree) Prepare(s Settings) error {
	if strings.ContainsAny(s.One("public_key"), "|&") {
		return errors.New("setting public_key is not the id of a key")
	}
	return nil
}

func braintreeMAC(secret []byte, message string) []byte {
	key := sha1.Sum(secret) //nolint:gosec // the provider's choice
	mac := hmac.New(sha1.New, key[:])
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// maxPairs is how many pairs of key and signature are read.
const maxPairs = 8

// Verify checks the pair that names the configured public key.
func (Braintree) Verify(in *Input) (Result, error) {
	form, err := url.ParseQuery(string(in.Body))
	if err != nil || len(form["bt_signature"]) > 1 || len(form["bt_payload"]) > 1 {
		return Result{}, refuse(Malformed, "the body is not the form expected")
	}
	pairs, payload := form.Get("bt_signature"), form.Get("bt_payload")
	if pairs == "" || payload == "" {
		return Result{}, refuse(Unsigned, "form bt_signature or bt_payload is missing")
	}
	if !braintreePayload.MatchString(payload) {
		return Result{}, refuse(Malformed, "form bt_payload is not base64")
	}
	if strings.Count(pairs, "&") >= maxPairs {
		return Result{}, refuse(Malformed, "form bt_signature has more than 8 pairs")
	}
	public := in.Settings.One("public_key")
	known := false
	for pair := range strings.SplitSeq(pairs, "&") {
		key, text, _ := strings.Cut(pair, "|")
		if key != public {
			continue
		}
		known = true
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha1.Size {
			continue
		}
		for _, s := range in.Secrets {
			// Some libraries include the payload's final line feed in the signed text and some do
			// not.
			if hmac.Equal(braintreeMAC(s.Value, payload), sum) || hmac.Equal(braintreeMAC(s.Value, payload+"\n"), sum) {
				return braintreeResult(s.Name, payload)
			}
		}
	}
	if !known {
		return Result{}, refuse(Mismatch, "form bt_signature has no pair of the source's public key")
	}
	return Result{}, refuse(Mismatch, "no live secret matches form bt_signature")
}

// braintreeResult accepts a signed payload only if it is a notification. Anyone can get a
// challenge's answer, which is signed with the same key. It therefore refuses hex digits and
// everything else that is not a notification.
func braintreeResult(secret, payload string) (Result, error) {
	if braintreeChallenge.MatchString(strings.TrimRight(payload, "\n")) {
		return Result{}, refuse(Mismatch, "form bt_payload is what a challenge is signed for")
	}
	values, ok := braintreeValues(payload)
	if !ok {
		return Result{}, refuse(Mismatch, "form bt_payload contains no notification")
	}
	return Result{Secret: secret, Values: values}, nil
}

// braintreeValues reads kind, timestamp and the subject's id from a notification. ok is false if
// the payload is not an XML document with a notification root.
func braintreeValues(payload string) (out url.Values, ok bool) {
	out = url.Values{"payload": {strings.TrimRight(payload, "\n")}}
	text, err := base64.StdEncoding.DecodeString(payload)
	if err != nil {
		return out, false
	}
	decoder := xml.NewDecoder(bytes.NewReader(text))
	var path []string
	for len(path) < 32 {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return out, ok
		}
		if err != nil {
			return out, false
		}
		switch t := token.(type) {
		case xml.StartElement:
			if path = append(path, t.Name.Local); len(path) == 1 {
				if ok || t.Name.Local != "notification" {
					return out, false
				}
				ok = true
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			value := strings.TrimSpace(string(t))
			if value == "" || len(path) < 2 {
				continue
			}
			name := ""
			switch {
			case len(path) == 2 && (path[1] == "kind" || path[1] == "timestamp"):
				name = path[1]
			case len(path) == 4 && path[1] == "subject" && path[3] == "id":
				name = "subject_id"
			}
			if name != "" && out.Get(name) == "" {
				out.Set(name, value)
			}
		}
	}
	return out, false
}

// HandshakeMethods returns the method of the challenge.
func (Braintree) HandshakeMethods() []string { return []string{http.MethodGet} }

// Handshake answers the challenge. It refuses anything but hex digits, because the answer is signed
// with the key that also signs deliveries.
func (Braintree) Handshake(in *Input) (Reply, bool, error) {
	if in.Method != http.MethodGet {
		return Reply{}, false, nil
	}
	_, query, _ := strings.Cut(in.URL, "?")
	values, _ := url.ParseQuery(query) // a query that cannot be parsed contains no challenge
	if !values.Has("bt_challenge") {
		return Reply{}, false, nil
	}
	challenge := values.Get("bt_challenge")
	if !braintreeChallenge.MatchString(challenge) {
		return Reply{}, true, refuse(Malformed, "query bt_challenge is not 20 to 32 hex digits")
	}
	if len(in.Secrets) == 0 {
		return Reply{}, true, refuse(Mismatch, "there is no live secret")
	}
	body := in.Settings.One("public_key") + "|" + hex.EncodeToString(braintreeMAC(in.Secrets[0].Value, challenge))
	return Reply{Status: http.StatusOK, ContentType: "text/plain", Body: []byte(body)}, true, nil
}

// Sign wraps an XML body into the signed form.
func (Braintree) Sign(in *Input, secret []byte) error {
	if form, err := url.ParseQuery(string(in.Body)); err == nil && form.Has("bt_payload") {
		text, err := base64.StdEncoding.DecodeString(form.Get("bt_payload"))
		if err != nil {
			return errors.New("bt_payload is not base64")
		}
		in.Body = text
	}
	payload := base64.StdEncoding.EncodeToString(in.Body) + "\n"
	form := url.Values{
		"bt_signature": {in.Settings.One("public_key") + "|" + hex.EncodeToString(braintreeMAC(secret, payload))},
		"bt_payload":   {payload},
	}
	in.Body = []byte(form.Encode())
	in.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return nil
}
