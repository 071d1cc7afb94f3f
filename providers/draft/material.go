package draft

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// material contains the parts from which messages are composed.
type material struct {
	bodies, times, others, places []piece
	method                        piece
	leads                         []string
}

func (s *search) material() *material {
	return &material{
		bodies: s.bodies(), times: s.times(), others: s.others(), places: s.places(), leads: s.leads(),
		method: piece{value: []byte(s.c.req.Method), part: providers.Part{Word: "method"}},
	}
}

// stamp says where verification reads a signed time.
type stamp struct{ from, name, unit string }

// bodies returns the pieces that can represent the content.
func (s *search) bodies() []piece {
	body := s.c.req.Body
	sum := sha256.Sum256(body)
	word := func(word string, value []byte) piece {
		return piece{value: value, part: providers.Part{Word: word}, body: true}
	}
	out := []piece{word("body", body)}
	if s.c.inForm != "" {
		for _, f := range s.c.form {
			if f.name == s.c.inForm {
				out = append(out, word("document", []byte(f.value)))
			}
		}
	}
	if s.c.formed {
		if form, err := url.ParseQuery(string(body)); err == nil {
			out = append(out, word("form-sorted", sortedForm(form)))
		}
	}
	return append(out, word("body-sha256-hex", []byte(hex.EncodeToString(sum[:]))), word("body-sha256", sum[:]),
		word("body-base64", []byte(base64.StdEncoding.EncodeToString(body))))
}

// sortedForm writes a form as senders do that sign its sorted names and values.
func sortedForm(form url.Values) []byte {
	var names []string
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		for _, value := range form[name] {
			b.WriteString(name + value)
		}
	}
	return b.Bytes()
}

// maxTimes and maxOthers limit how many values take part in combinations.
const maxTimes, maxOthers = 6, 14

// times returns the values that can be the time of signing.
func (s *search) times() []piece {
	var out []piece
	seen := map[string]bool{}
	add := func(p piece) {
		if key := string(p.value) + "\x00" + p.of; !seen[key] && len(out) < maxTimes {
			seen[key] = true
			out = append(out, p)
		}
	}
	word := providers.Part{Word: "timestamp"}
	for i := range s.all {
		if c := &s.all[i]; c.stamp != nil {
			add(piece{value: []byte(c.stamp.raw), part: word, of: c.leaf.name, stamp: &stamp{"signature", "", c.stamp.unit}})
		}
	}
	for _, h := range s.c.headers {
		if at, ok := readClock(h.value); ok {
			add(piece{value: []byte(h.value), part: word, stamp: &stamp{"header", h.name, at.unit}})
		}
	}
	for _, q := range s.c.query {
		if _, ok := readClock(q.value); ok {
			add(piece{value: []byte(q.value), part: providers.Part{Query: q.name}})
		}
	}
	for _, l := range slices.Concat(s.c.form, s.c.json) {
		if at, ok := readClock(l.value); ok && strings.Contains(strings.ToLower(l.name), "time") {
			add(piece{value: []byte(l.value), part: part(&l), field: true, stamp: &stamp{l.kind, l.name, at.unit}})
		}
	}
	return out
}

// others returns the headers and parameters that can be signed together with the content.
func (s *search) others() []piece {
	var out []piece
	for _, h := range slices.Concat(s.c.headers, s.c.query) {
		if _, isTime := readClock(h.value); isTime || h.value == "" || len(h.value) > 1024 || len(out) >= maxOthers || s.isSignature(&h) {
			continue
		}
		p := piece{value: []byte(h.value), part: providers.Part{Header: []string{h.name}}}
		if h.kind == "query" {
			p.part = providers.Part{Query: h.name}
		}
		out = append(out, p)
	}
	// Try a header first whose name suggests that it is signed.
	slices.SortStableFunc(out, func(a, b piece) int { return rank(&a) - rank(&b) })
	return out
}

func rank(p *piece) int {
	name := strings.ToLower(p.part.Query + strings.Join(p.part.Header, ""))
	for i, word := range []string{"nonce", "webhook", "hook", "delivery", "event", "id", "x-"} {
		if strings.Contains(name, word) {
			return i
		}
	}
	return 9
}

// isSignature reports whether a header's name says that it is the signature.
func (s *search) isSignature(l *leaf) bool {
	name := strings.ToLower(l.name)
	if !strings.Contains(name, "sign") && !strings.Contains(name, "hmac") {
		return false
	}
	return slices.ContainsFunc(s.all, func(c carrier) bool { return c.leaf.name == l.name })
}

// places returns the parts of the address that can be signed.
func (s *search) places() []piece {
	address := s.c.req.URL
	out := []piece{{value: []byte(address), part: providers.Part{Word: "url"}}}
	u, err := url.Parse(address)
	if err != nil || u.Path == "" {
		return out
	}
	path, query, found := strings.Cut(strings.TrimPrefix(address, u.Scheme+"://"+u.Host), "?")
	at := piece{value: []byte(path), part: providers.Part{Word: "path"}}
	out = append(out, at)
	if found {
		at.value = []byte(path + "?" + query)
		at.more = []providers.Part{{Literal: "?"}, {Word: "query"}}
		out = append(out, at, piece{value: []byte(query), part: providers.Part{Word: "query"}})
	}
	return out
}

// leads returns the texts that a versioned scheme puts before the signed message: v0, v1 and the
// labels of signatures.
func (s *search) leads() []string {
	out := []string{"v0", "v1"}
	for i := range s.all {
		for _, word := range []string{s.all[i].label, strings.TrimRight(s.all[i].prefix, "=: ")} {
			if word != "" && len(word) < 12 && !slices.Contains(out, word) && len(out) < 5 && s.all[i].kind == "header" {
				out = append(out, word)
			}
		}
	}
	return out
}
