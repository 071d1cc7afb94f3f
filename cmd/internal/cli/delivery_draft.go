package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers"
)

// draft is a delivery that is not signed yet.
type draft struct {
	header http.Header
	body   []byte
	id     string
	at     time.Time
}

// draft creates the delivery from the provider's example or from a file, with the requested event
// id and type in the places that the provider uses.
func (s *shell) draft(p *providers.Provider, f sendFlags) (*draft, error) {
	spec := p.Spec()
	d := &draft{header: http.Header{}, id: f.eventID, at: f.at}
	if d.at.IsZero() {
		d.at = time.Now()
	}
	fresh := control.FreshEventID(p.Name())
	if d.id == "" {
		d.id = fresh
	}
	made := d.at
	if f.eventID != "" {
		// A chosen id names one event, so its payload must be the same in every run of a day;
		// otherwise the second run would cause a conflict. The payload's time is not older, because
		// an older event would be held for its age.
		made = d.at.UTC().Truncate(24 * time.Hour)
	}
	d.header, d.body = control.ExampleDelivery(p, d.id, made)
	d.header.Set("User-Agent", "oncegate-send")
	if f.file == "" && len(d.body) == 0 {
		return nil, usagef("the catalogue has no example of %s: add --file payload.json", p.Name())
	}
	if f.file != "" {
		if err := s.replaceBody(d, p, f); err != nil {
			return nil, err
		}
	}
	control.IdentifyDelivery(d.header, spec.Identity.Candidates, d.id)
	if f.kind == "" {
		return d, nil
	}
	return d, d.place(spec.Type, f.kind, "type")
}

// replaceBody reads the payload from a file. It sends the bytes unchanged, unless an event id or a
// type must be inserted.
func (s *shell) replaceBody(d *draft, p *providers.Provider, f sendFlags) error {
	var err error
	if d.body, err = s.readFile("--file", f.file); err != nil {
		return err
	}
	candidates := p.Spec().Identity.Candidates
	inBody := slices.ContainsFunc(candidates, func(c providers.Field) bool { return c.JSON != "" })
	if f.eventID != "" && inBody {
		if err := d.place(candidates, f.eventID, "event id"); err != nil {
			return err
		}
	}
	for _, c := range candidates {
		if own, ok := lookup(d.body, c.JSON); ok && f.eventID == "" {
			d.id = own
			break
		}
	}
	if f.kind == "" && p.Name() == "github" {
		kind, ok := githubEvent(d.body)
		if !ok {
			return usagef("GitHub names the event in a header, and the payload does not tell which: add --type, such as --type push")
		}
		d.header.Set("X-Github-Event", kind)
	}
	return nil
}

// place sets a value in the field from which the provider reads it. It prefers a header that the
// draft already has.
func (d *draft) place(fields []providers.Field, value, what string) error {
	for _, present := range []bool{true, false} {
		for _, field := range fields {
			if present && !d.has(field) {
				continue
			}
			if done, err := d.put(field, value, what); done || err != nil {
				return err
			}
		}
	}
	return usagef("the provider has no place for a chosen %s", what)
}

// has reports whether the draft has a header from which the field is read.
func (d *draft) has(field providers.Field) bool {
	for _, part := range append([]providers.Field{field}, field.Join...) {
		if part.Header != "" && d.header.Get(part.Header) != "" {
			return true
		}
	}
	return false
}

// put sets one field. For a joined field, it splits the value at the separator and sets the parts.
func (d *draft) put(field providers.Field, value, what string) (bool, error) {
	switch {
	case len(field.Join) > 0:
		values := []string{value}
		if field.With != "" {
			values = strings.SplitN(value, field.With, len(field.Join))
		}
		for i, part := range field.Join {
			if i >= len(values) {
				break
			}
			if done, err := d.put(part, values[i], what); err != nil || !done && i == 0 {
				return false, err
			}
		}
		return true, nil
	case field.Header != "":
		d.header.Set(field.Header, value)
		return true, nil
	case field.JSON != "" && field.JSON != "$":
		body, err := set(d.body, strings.Split(field.JSON, "."), value)
		if err != nil {
			return false, usagef("putting the %s into the payload at %s: %v", what, field.JSON, err)
		}
		d.body = body
		return true, nil
	}
	return false, nil
}

// sign signs the draft as the provider would, in one of its modes, and then changes the part that
// tamper names.
func (d *draft) sign(to *addressee, mode, tamper string) (*providers.Request, error) {
	r := &providers.Request{Method: http.MethodPost, URL: to.url, Header: d.header.Clone(), Body: d.body, ReceivedAt: d.at}
	verify := to.provider.Spec().Verify
	switch tamper {
	case "", "body", "signature":
	case "timestamp":
		if from := verify.Timestamp.From; from == "" || from == "none" || verify.Timestamp.Unsigned {
			return nil, usagef("%s signs no time: --tamper timestamp has nothing to spoil", to.provider.Name())
		}
		r.ReceivedAt = d.at.Add(-time.Hour)
	default:
		return nil, usagef("--tamper %q is unknown; known are body, signature, timestamp", clean(tamper))
	}
	if err := to.provider.SignAs(mode, r, to.secret, d.id); err != nil {
		return nil, usagef("signing as %s: %v", to.provider.Name(), err)
	}
	switch tamper {
	case "body":
		// JSON allows white space here, so the payload keeps its meaning.
		r.Body = append(bytes.Clone(r.Body), '\n')
	case "signature":
		spoiled := false
		for name, values := range r.Header {
			signs := slices.ContainsFunc(verify.Signature.Headers, func(h string) bool { return http.CanonicalHeaderKey(h) == name })
			if len(verify.Signature.Headers) == 0 {
				signs = !slices.Equal(d.header[name], values)
			}
			if signs && len(values) > 0 {
				r.Header[name] = []string{spoil(values[0])}
				spoiled = true
			}
		}
		if !spoiled {
			return nil, usagef("%s puts no signature in a header: --tamper signature has nothing to spoil", to.provider.Name())
		}
	}
	return r, nil
}

// spoil changes one character of a signature, some distance before its end, because the last
// characters of base64 may contain unused bits.
func spoil(signature string) string {
	b := []byte(signature)
	for i := max(len(b)-8, 0); i >= 0 && i < len(b); i-- {
		switch c := b[i]; {
		case c == '0':
			b[i] = '1'
			return string(b)
		case c > '0' && c <= '9', c > 'a' && c <= 'z', c > 'A' && c <= 'Z':
			b[i]--
			return string(b)
		case c == 'a', c == 'A':
			b[i]++
			return string(b)
		}
	}
	return signature + "x"
}

// githubEvent derives the event type from the keys that only its payload has.
func githubEvent(body []byte) (string, bool) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(body, &keys) != nil {
		return "", false
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := keys[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("ref", "before", "after", "commits"):
		return "push", true
	case has("zen", "hook_id"):
		return "ping", true
	case has("action", "issue", "comment"):
		return "issue_comment", true
	case has("action", "pull_request", "number"):
		return "pull_request", true
	case has("action", "issue"):
		return "issues", true
	case has("action", "release"):
		return "release", true
	}
	return "", false
}

// lookup returns the string or number at a dotted path.
func lookup(body []byte, path string) (string, bool) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return "", false
	}
	for key := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return "", false
		}
		value = object[key]
	}
	switch value := value.(type) {
	case string:
		return value, value != ""
	case json.Number:
		return value.String(), true
	}
	return "", false
}

// set writes a string at a dotted path and creates the missing objects. It keeps the text of the
// other keys; their order may change.
func set(body []byte, path []string, value string) ([]byte, error) {
	object := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(body)) > 0 {
		if err := json.Unmarshal(body, &object); err != nil {
			return nil, fmt.Errorf("not a JSON object")
		}
	}
	var inner []byte
	var err error
	if len(path) == 1 {
		inner, err = json.Marshal(value)
	} else {
		inner, err = set(object[path[0]], path[1:], value)
	}
	if err != nil {
		return nil, err
	}
	object[path[0]] = inner
	return json.Marshal(object)
}
