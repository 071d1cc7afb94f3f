package providers

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxEcho is the longest value that an answer repeats.
const maxEcho = 1024

// handshake is a compiled HandshakeSpec.
type handshake struct {
	HandshakeSpec
	paths   *jsonspan.PathSet
	match   []field
	token   field
	body    []piece
	headers map[string][]piece
}

// piece is a part of a template: literal text, or a field with a function.
type piece struct {
	literal  string
	field    *field
	function string
}

func compileHandshakes(specs []HandshakeSpec) []handshake {
	var out []handshake
	for _, spec := range specs {
		h := handshake{HandshakeSpec: spec, paths: jsonspan.NewPathSet(), headers: map[string][]piece{}}
		for _, m := range spec.Match {
			h.match = append(h.match, compileField(Field{Header: m.Header, JSON: m.JSON, Query: m.Query, Form: m.Form}, h.paths, h.paths))
		}
		h.token = compileField(spec.Token, h.paths, h.paths)
		// The template was checked when the spec was parsed.
		h.body, _ = template(spec.Respond.Body, h.paths)
		for name, value := range spec.Respond.Headers {
			h.headers[name], _ = template(value, h.paths)
		}
		out = append(out, h)
	}
	return out
}

// template parses "text {{json challenge}} text {{hmac_hex json plainToken}}".
func template(s string, paths *jsonspan.PathSet) ([]piece, error) {
	var out []piece
	for s != "" {
		literal, rest, found := strings.Cut(s, "{{")
		if literal != "" {
			out = append(out, piece{literal: literal})
		}
		if !found {
			break
		}
		inner, after, found := strings.Cut(rest, "}}")
		if !found {
			return nil, errors.New("{{ without }}")
		}
		s = after
		words := strings.Fields(inner)
		p := piece{}
		if len(words) == 3 {
			if words[0] != "hmac_hex" && words[0] != "hmac_base64" {
				return nil, errors.New("unknown function " + words[0])
			}
			p.function, words = words[0], words[1:]
		}
		if len(words) != 2 {
			return nil, errors.New("{{" + inner + "}} is not of the form {{json path}}, {{query name}} or {{header name}}")
		}
		f := Field{}
		switch words[0] {
		case "json":
			f.JSON = words[1]
		case "query":
			f.Query = words[1]
		case "header":
			f.Header = words[1]
		default:
			return nil, errors.New("unknown source " + words[0])
		}
		compiled := compileField(f, paths, paths)
		p.field = &compiled
		out = append(out, p)
	}
	return out, nil
}

// Handshake answers a request that tests the endpoint. ok is false if the request is not such a
// test. It returns a *[Refusal] for a handshake that must be authentic and is not. If the rule
// requires a signature, the body is parsed only after verification.
func (p *Provider) Handshake(req *Request, secrets []Secret) (reply Reply, ok bool, err error) {
	for i := range p.handshakes {
		h := &p.handshakes[i]
		if h.Method != req.Method || !h.hinted(req) {
			continue
		}
		if err := p.admit(h, req, secrets); err != nil {
			// The request may be a delivery that resembles a handshake. It is refused in both
			// cases.
			return Reply{}, true, h.refusal(err)
		}
		s := source{req: req}
		if h.paths.Len() > 1 {
			if s.itemSpans, err = h.paths.Walk(req.Body); err != nil {
				continue
			}
			s.item = req.Body
		}
		if h.formed() && isForm(req) {
			if s.form, err = parseForm(req.Body); err != nil {
				continue
			}
		}
		if !h.matches(&s) {
			continue
		}
		if h.Verify == "token" && !h.knows(&s, p.tokens(h, live(secrets, req.ReceivedAt))) {
			return Reply{}, true, h.refusal(refuse(ReasonMismatch, "no live secret matches the token of handshake "+h.Name))
		}
		arrived, err := p.bootstrap(h, &s, secrets)
		if err != nil {
			return Reply{}, true, h.refusal(err)
		}
		reply, err := h.reply(&s, live(p.keys(secrets), req.ReceivedAt))
		if err != nil {
			return Reply{}, true, refuse(ReasonMalformed, "handshake "+h.Name+": "+err.Error())
		}
		reply.Arrived = arrived
		return reply, true, nil
	}
	if p.scheme != nil {
		return p.schemeHandshake(req, secrets)
	}
	return Reply{}, false, nil
}

// formed reports whether a form field identifies the handshake.
func (h *handshake) formed() bool {
	return slices.ContainsFunc(h.Match, func(m MatchSpec) bool { return m.Form != "" })
}

// hinted is a cheap check of the request, so that an ordinary delivery is not verified twice.
func (h *handshake) hinted(req *Request) bool {
	for i := range h.Match {
		m := &h.Match[i]
		switch {
		case m.Absent:
			if m.Header != "" && req.Header.Get(m.Header) != "" {
				return false
			}
		case m.JSON != "" && m.Equals != "":
			if !bytes.Contains(req.Body, []byte(m.Equals)) {
				return false
			}
		case m.JSON != "":
			last := m.JSON[strings.LastIndexByte(m.JSON, '.')+1:]
			if !bytes.Contains(req.Body, []byte(last)) {
				return false
			}
		case m.Header != "":
			if req.Header.Get(m.Header) == "" {
				return false
			}
		case m.Query != "":
			if !strings.Contains(req.URL, "?") {
				return false
			}
		}
	}
	return true
}

func (h *handshake) matches(s *source) bool {
	for i := range h.match {
		value, ok, err := h.match[i].read(s, false)
		if h.Match[i].Absent && !ok && err == nil {
			continue
		}
		if !ok || err != nil || h.Match[i].Absent {
			return false
		}
		if want := h.Match[i].Equals; want != "" && value != want {
			return false
		}
	}
	return true
}

func (h *handshake) knows(s *source, secrets []Secret) bool {
	value, ok, err := h.token.read(s, false)
	if !ok || err != nil {
		return false
	}
	got := sha256.Sum256([]byte(value))
	known := 0
	for i := range secrets {
		want := sha256.Sum256(secrets[i].Value)
		known |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return known == 1
}

func (h *handshake) reply(s *source, secrets []Secret) (Reply, error) {
	spec := &h.Respond
	reply := Reply{Status: spec.Status, Header: http.Header{"X-Content-Type-Options": {"nosniff"}}}
	if !spec.Empty {
		body, err := render(h.body, s, secrets, spec.ContentType == "application/json")
		if err != nil {
			return Reply{}, err
		}
		reply.ContentType, reply.Body = spec.ContentType, []byte(body)
	}
	for _, name := range slices.Sorted(maps.Keys(h.headers)) {
		value, err := render(h.headers[name], s, secrets, false)
		if err != nil {
			return Reply{}, err
		}
		reply.Header.Set(name, value)
	}
	return reply, nil
}

func render(pieces []piece, s *source, secrets []Secret, asJSON bool) (string, error) {
	var b strings.Builder
	for i := range pieces {
		p := &pieces[i]
		if p.field == nil {
			b.WriteString(p.literal)
			continue
		}
		value, ok, err := p.field.read(s, false)
		if err != nil || !ok {
			return "", errors.New("a value to send back is missing")
		}
		if len(value) > maxEcho || !printable(value) {
			return "", errors.New("a value to send back is too long or not printable")
		}
		if p.function != "" {
			if strings.ContainsAny(value, "{[") {
				return "", errors.New("a value to sign could be a part of a delivery")
			}
			if len(secrets) == 0 {
				return "", errors.New("there is no live secret")
			}
			mac := hmac.New(sha256.New, secrets[0].Value)
			mac.Write([]byte(value))
			if p.function == "hmac_hex" {
				value = hex.EncodeToString(mac.Sum(nil))
			} else {
				value = base64.StdEncoding.EncodeToString(mac.Sum(nil))
			}
		}
		if asJSON {
			quoted, err := json.Marshal(value)
			if err != nil {
				return "", errors.New("a value to send back is not text")
			}
			value = string(quoted[1 : len(quoted)-1])
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// isDocument reports whether a body starts like a JSON object or array. A provider whose handshake
// answers with a signature accepts no other body as a delivery.
func isDocument(body []byte) bool {
	i := jsonspan.SkipBlank(body, 0)
	return i < len(body) && (body[i] == '{' || body[i] == '[')
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
