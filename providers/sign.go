package providers

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// Sign makes the request one that the provider could have sent at req.ReceivedAt: it sets the
// headers of the event id and the signature. If the provider sends the id in the body, the caller
// must put it there. If eventID is empty, Sign sets no id header.
func (p *Provider) Sign(req *Request, secret Secret, eventID string) error {
	p = p.mode(req)
	if len(secret.Value) == 0 && !p.secretless() {
		return fmt.Errorf("signing as %s: the secret is empty", p.name)
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if eventID != "" {
		p.identify(req, eventID)
	}
	p.announce(req)
	var err error
	switch {
	case p.spec.Verify.signs():
		err = p.sign(req, secret)
	case p.scheme != nil:
		err = p.signScheme(req, secret)
	case p.unchecked():
	default:
		err = p.present(req, secret)
	}
	if err != nil {
		return fmt.Errorf("signing as %s: %w", p.name, err)
	}
	return nil
}

// identify sets the header of the first candidate that has one, unless an earlier candidate reads
// the id from the body.
func (p *Provider) identify(req *Request, eventID string) {
	if p.IsOperation() {
		req.Header.Set(p.spec.Verify.Operation.Key, eventID)
		return
	}
	for _, f := range p.spec.Identity.Candidates {
		name := f.Header
		for _, part := range f.Join {
			if name == "" {
				name = part.Header
			}
		}
		if name != "" {
			req.Header.Set(name, eventID)
			return
		}
	}
}

func (p *Provider) sign(req *Request, secret Secret) error {
	spec := &p.spec.Verify
	if spec.Signature.From == "query" || spec.Signature.From == "form" && !isForm(req) {
		return errors.New("the signature is inside what it signs; only the provider makes such requests")
	}
	id, key, err := p.splitKeyID(secret.Value)
	if err != nil {
		return fmt.Errorf("the secret %w", err)
	}
	if id != "" {
		req.Header.Set(spec.Key.Name, id)
	}
	secret.Value = key
	timestamp := stamp(req.ReceivedAt, spec.Timestamp.Unit)
	if spec.Timestamp.From == "json" && !p.replaceDocument(req, spec.Timestamp.Path, timestamp) {
		return errors.New("the body has no JSON " + spec.Timestamp.Path + " to put the time into")
	}
	if spec.Timestamp.From == "form" && !replaceForm(req, spec.Timestamp.Path, timestamp) {
		return errors.New("the body is no form to put the time into")
	}
	if spec.Timestamp.From == "header" {
		req.Header.Set(spec.Timestamp.Header[0], timestamp)
	}
	at := p.newLocator(req)
	message := func(key []byte) ([]byte, *Refusal) {
		var out bytes.Buffer
		err := p.message(req, at, timestamp, key, &out)
		return out.Bytes(), err
	}
	if _, err := message(nil); err != nil {
		return err
	}
	s, sum, err := p.sum(secret, message)
	if err != nil {
		return err
	}
	value := spec.Signature.Prefix + s.encode(sum) + spec.Signature.Suffix
	if spec.Signature.Format == "list" || spec.Signature.Format == "groups" {
		value = s.Label + spec.Signature.Assign + s.encode(sum)
		if label := spec.Signature.TimestampLabel; label != "" {
			value = label + spec.Signature.Assign + timestamp + spec.Signature.Separator + value
		}
	}
	if spec.Signature.Format == "positional" {
		value = timestamp + spec.Signature.Separator + s.encode(sum)
	}
	if spec.Signature.From == "json" {
		if !p.replaceDocument(req, spec.Signature.Path, value) {
			return errors.New("the body has no JSON " + spec.Signature.Path + " to put the signature into")
		}
		return nil
	}
	if spec.Signature.From == "form" {
		if !replaceForm(req, spec.Signature.Path, value) {
			return errors.New("the body is no form to put the signature into")
		}
		return nil
	}
	name := spec.Signature.Headers[0]
	if spec.Signature.From == "numbered-headers" {
		name = strings.TrimSuffix(name, "N") + "1"
	}
	req.Header.Set(name, value)
	return nil
}

// replaceJSON replaces a text or a number in the body.
func replaceJSON(req *Request, path, value string) bool {
	paths := jsonspan.NewPathSet()
	slot := paths.Add(path)
	spans, err := paths.Walk(req.Body)
	if err != nil || !spans[slot].Present() {
		return false
	}
	at := spans[slot]
	switch c := req.Body[at.Start]; {
	case c == '"':
		value = `"` + value + `"`
	case c < '0' || c > '9':
		return false
	}
	req.Body = slices.Concat(req.Body[:at.Start], []byte(value), req.Body[at.End:])
	return true
}

// sum signs with the first scheme for which the secret is a key.
func (p *Provider) sum(secret Secret, message func(key []byte) ([]byte, *Refusal)) (*scheme, []byte, error) {
	var last error
	for i := range p.schemes {
		s := &p.schemes[i]
		if s.isPublic() && isPrivatePEM(secret.Value) {
			text, _ := message(nil)
			sum, err := s.signPrivate(secret.Value, text)
			return s, sum, err
		}
		if s.isPublic() && s.Algorithm != "ed25519" {
			last = errors.New("a public key cannot sign")
			continue
		}
		if s.isPublic() {
			rest, ok := strings.CutPrefix(string(secret.Value), s.PrivatePrefix)
			if s.PrivatePrefix == "" || !ok {
				last = errors.New("a public key cannot sign")
				continue
			}
			key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(rest, "="))
			if err != nil || len(key) != ed25519.PrivateKeySize {
				return nil, nil, errors.New("the private key is not 64 bytes in base64")
			}
			text, _ := message(nil)
			return s, ed25519.Sign(ed25519.PrivateKey(key), text), nil
		}
		key, err := s.key(secret.Value, p.schemes)
		if err != nil {
			if last == nil || !errors.Is(err, errOtherScheme) {
				last = fmt.Errorf("the secret %w", err)
			}
			continue
		}
		mac := s.mac(key)
		text, _ := message(key)
		mac.Write(text)
		return s, mac.Sum(nil), nil
	}
	return nil, nil, last
}

func (p *Provider) present(req *Request, secret Secret) error {
	c := &p.spec.Verify.Credential[0]
	value := string(secret.Value)
	switch c.Scheme {
	case "query":
		u, err := url.Parse(req.URL)
		if err != nil {
			return errors.New("the address cannot be read")
		}
		query := u.Query()
		query.Set(c.Name, value)
		u.RawQuery = query.Encode()
		req.URL = u.String()
		return nil
	case "json":
		if !replaceJSON(req, c.Name, value) {
			return errors.New("the body has no JSON " + c.Name + " to put the credential into")
		}
		return nil
	case "form":
		if !replaceForm(req, c.Name, value) {
			return errors.New("the body is no form to put the credential into")
		}
		return nil
	case "header":
		value = c.Prefix + value
	case "bearer":
		value = "Bearer " + value
	case "basic":
		if !strings.Contains(value, ":") {
			return errors.New("the secret is not user:password, which a basic credential is")
		}
		value = "Basic " + base64.StdEncoding.EncodeToString(secret.Value)
	}
	req.Header.Set(c.header(), value)
	return nil
}

func stamp(t time.Time, unit string) string {
	switch unit {
	case "ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	case "us":
		return strconv.FormatInt(t.UnixMicro(), 10)
	case "ns":
		return strconv.FormatInt(t.UnixNano(), 10)
	case "rfc3339", "datetime":
		return t.UTC().Format(time.RFC3339Nano)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// replaceForm sets a field of a form and encodes the form again.
func replaceForm(req *Request, name, value string) bool {
	form, err := parseForm(req.Body)
	if err != nil {
		return false
	}
	form.Set(name, value)
	req.Body = []byte(form.Encode())
	return true
}
