package scheme

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxMembers is how many signatures or digests of a request are read.
const maxMembers = 8

// maxComponents is how many components one signature may cover.
const maxComponents = 64

var (
	errStructured = errors.New("is not a structured field that is understood")
	errMembers    = errors.New("has more than 8 members")
	errTwice      = errors.New("has a member twice")
)

// joined returns all values of a header as one list, separated by commas.
func (in *Input) joined(name string) (string, error) {
	value := strings.Join(in.Header.Values(name), ", ")
	if len(value) > maxHeader {
		return "", refuse(Malformed, "header "+name+" is too long")
	}
	return value, nil
}

// reader parses those structured fields (RFC 9651) that signatures use.
type reader struct {
	text string
	pos  int
}

func (r *reader) done() bool { return r.pos >= len(r.text) }

func (r *reader) peek() byte {
	if r.done() {
		return 0
	}
	return r.text[r.pos]
}

func (r *reader) take(c byte) bool {
	if r.peek() != c || r.done() {
		return false
	}
	r.pos++
	return true
}

func (r *reader) spaces() {
	for r.peek() == ' ' {
		r.pos++
	}
}

// key parses a name of lower-case letters, digits, _, -, . and *.
func (r *reader) key() (string, bool) {
	start := r.pos
	for !r.done() {
		c := r.text[r.pos]
		letter := c >= 'a' && c <= 'z' || c == '*'
		if !letter && (r.pos == start || !(c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')) {
			break
		}
		r.pos++
	}
	return r.text[start:r.pos], r.pos > start
}

// quoted parses a string.
func (r *reader) quoted() (string, bool) {
	if !r.take('"') {
		return "", false
	}
	var b strings.Builder
	for !r.done() {
		c := r.text[r.pos]
		r.pos++
		switch {
		case c == '"':
			return b.String(), true
		case c == '\\':
			if c = r.peek(); c != '"' && c != '\\' {
				return "", false
			}
			r.pos++
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// bytes parses a byte sequence.
func (r *reader) bytes() ([]byte, bool) {
	if !r.take(':') {
		return nil, false
	}
	end := strings.IndexByte(r.text[r.pos:], ':')
	if end < 0 {
		return nil, false
	}
	out, err := base64.StdEncoding.Strict().DecodeString(r.text[r.pos : r.pos+end])
	r.pos += end + 1
	return out, err == nil
}

// next skips the comma between two members.
func (r *reader) next() bool {
	r.spaces()
	if !r.take(',') {
		return false
	}
	r.spaces()
	return !r.done()
}

// parseInputs parses Signature-Input.
func parseInputs(text string) ([]signatureInput, error) {
	r := reader{text: text}
	var out []signatureInput
	for {
		label, ok := r.key()
		if !ok || !r.take('=') {
			return nil, errStructured
		}
		if slices.ContainsFunc(out, func(s signatureInput) bool { return s.label == label }) {
			return nil, errTwice
		}
		if len(out) == maxMembers {
			return nil, errMembers
		}
		s := signatureInput{label: label}
		start := r.pos
		if err := s.read(&r); err != nil {
			return nil, err
		}
		s.raw = text[start:r.pos]
		out = append(out, s)
		if r.done() {
			return out, nil
		}
		if !r.next() {
			return nil, errStructured
		}
	}
}

func (s *signatureInput) read(r *reader) error {
	if !r.take('(') {
		return errStructured
	}
	for {
		r.spaces()
		if r.take(')') {
			break
		}
		c, err := r.component()
		switch {
		case err != nil:
			return err
		case slices.ContainsFunc(s.covered, func(other component) bool { return other.identifier == c.identifier }):
			return errors.New("covers a component twice")
		case len(s.covered) == maxComponents:
			return errors.New("covers too many components")
		}
		s.covered = append(s.covered, c)
	}
	seen := map[string]bool{}
	for r.take(';') {
		r.spaces()
		name, ok := r.key()
		if !ok || seen[name] || !r.take('=') {
			return errStructured
		}
		seen[name] = true
		if r.peek() == '"' {
			value, ok := r.quoted()
			if !ok {
				return errStructured
			}
			switch name {
			case "keyid":
				s.keyID = value
			case "alg":
				s.algorithm = value
			}
			continue
		}
		start := r.pos
		for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
			r.pos++
		}
		n, err := strconv.ParseInt(r.text[start:r.pos], 10, 64)
		if err != nil || n > 1e11 {
			return errStructured
		}
		switch name {
		case "created":
			s.created = time.Unix(n, 0).UTC()
		case "expires":
			s.expires = time.Unix(n, 0).UTC()
		}
	}
	return nil
}

// parseBytes parses a dictionary of byte sequences: Signature or Content-Digest.
func parseBytes(text string) (map[string][]byte, error) {
	r := reader{text: text}
	out := map[string][]byte{}
	for {
		label, ok := r.key()
		if !ok || !r.take('=') {
			return nil, errStructured
		}
		value, ok := r.bytes()
		if !ok {
			return nil, errStructured
		}
		if _, twice := out[label]; twice {
			return nil, errTwice
		}
		if len(out) == maxMembers {
			return nil, errMembers
		}
		out[label] = value
		r.spaces()
		if r.done() {
			return out, nil
		}
		if !r.next() {
			return nil, errStructured
		}
	}
}
