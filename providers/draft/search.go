package draft

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // tried to be told apart, never written
	"crypto/sha1" //nolint:gosec // some senders sign with HMAC-SHA1
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

// piece is one part of what may be signed.
type piece struct {
	value []byte
	part  providers.Part
	more  []providers.Part // what follows it, where several parts stand together
	stamp *stamp           // where it is a time that can be compared with the receipt
	of    string           // the header whose signature the time stands beside
	body  bool             // it stands for the whole content
	field bool             // it stands for a part of the content
	key   bool             // it is the secret itself
}

// stamp is where a signed time is read.
type stamp struct{ from, name, unit string }

// algorithm is a way to make a digest of a key and a message.
type algorithm struct {
	name  string
	size  int
	new   func() hash.Hash
	plain bool
}

func algorithms() []algorithm {
	return []algorithm{
		{"sha256", sha256.Size, sha256.New, false}, {"sha1", sha1.Size, sha1.New, false}, {"sha512", sha512.Size, sha512.New, false},
		{"sha384", sha512.Size384, sha512.New384, false}, {"md5", md5.Size, md5.New, false},
	}
}

// separators stand between the parts of what is signed.
var separators = []string{".", "", ":", "\n", "|", "&", "-", "_", ",", ";", "+", "/", " ", "\r\n", "?"}

// match is a reading of the request with which a signature fits.
type match struct {
	carrier *carrier
	key     *key
	public  *publicKey
	alg     string
	pieces  []piece
}

type search struct {
	c       *captured
	o       Options
	all     []carrier
	bySum   map[string][]int
	sizes   map[int]bool
	keys    []key
	publics []publicKey
	matches []match
	matched map[string]bool // sums that are explained
	count   int64
	total   int64
	cut     bool
	forms   []string
	near    []string
	algs    []algorithm
	buffer  bytes.Buffer
	sums    []int // carriers that a public key can have signed
	hashed  int64 // since Continue was asked
}

func newSearch(c *captured, o Options) *search {
	s := &search{c: c, o: o, all: c.carriers(), bySum: map[string][]int{}, sizes: map[int]bool{}, matched: map[string]bool{}, total: 100_000}
	s.keys = keys(c, o.Secret)
	s.publics = publicKeys(o.Secret)
	for i := range s.all {
		sum := string(s.all[i].sum)
		s.bySum[sum] = append(s.bySum[sum], i)
		s.sizes[len(sum)] = true
		if (len(sum) == 64 || len(sum) >= 68) && len(s.bySum[sum]) == 1 && s.all[i].kind != "json" {
			s.sums = append(s.sums, i)
		}
	}
	for _, a := range algorithms() {
		if s.sizes[a.size] {
			s.algs = append(s.algs, a)
		}
	}
	return s
}

// askEvery is how many bytes are hashed between two questions whether to go on, and
// perTry what a message costs beside its own.
const askEvery, perTry = 1 << 20, 4 << 10

// going counts one message and says whether the search goes on.
func (s *search) going() bool {
	if s.cut {
		return false
	}
	s.hashed += perTry + int64(len(s.buffer.Bytes()))
	if s.hashed > askEvery && s.o.Continue != nil {
		s.hashed = 0
		s.cut = !s.o.Continue(s.count, max(s.total, s.count))
	}
	return !s.cut
}

// try compares the signatures of the request with those of one message.
func (s *search) try(pieces ...piece) {
	if !s.going() {
		return
	}
	plain := slices.ContainsFunc(pieces, func(p piece) bool { return p.key })
	for k := range s.keys {
		key := &s.keys[k]
		s.buffer.Reset()
		for i := range pieces {
			if pieces[i].key {
				s.buffer.Write(key.value)
			} else {
				s.buffer.Write(pieces[i].value)
			}
		}
		for _, a := range s.algs {
			var sum []byte
			name := a.name
			if plain {
				h := a.new()
				h.Write(s.buffer.Bytes())
				sum = h.Sum(nil)
			} else {
				h := hmac.New(a.new, key.value)
				h.Write(s.buffer.Bytes())
				sum, name = h.Sum(nil), "hmac-"+a.name
			}
			s.count++
			if at, ok := s.bySum[string(sum)]; ok {
				s.matched[string(sum)] = true
				s.hit(at, match{key: key, alg: name, pieces: slices.Clone(pieces)})
			}
		}
	}
	if plain || len(s.publics) == 0 || s.count > 200_000 {
		return
	}
	for k := range s.publics {
		for _, i := range s.sums {
			s.count++
			if s.publics[k].verify(s.buffer.Bytes(), s.all[i].sum) {
				s.matched[string(s.all[i].sum)] = true
				s.hit([]int{i}, match{public: &s.publics[k], alg: s.publics[k].algorithm, pieces: slices.Clone(pieces)})
			}
		}
	}
}

// hit keeps the readings of a signature that fits. A time beside a signature is
// signed by that signature alone.
func (s *search) hit(at []int, m match) {
	for _, i := range at {
		c := &s.all[i]
		fine := true
		for _, p := range m.pieces {
			if p.of != "" && (p.of != c.leaf.name || c.stamp == nil || c.stamp.raw != string(p.value)) {
				fine = false
			}
		}
		if fine {
			m.carrier = c
			s.matches = append(s.matches, m)
		}
	}
}

// run tries the forms, those first that are the most usual.
func (s *search) run() {
	if len(s.algs) == 0 && (len(s.publics) == 0 || len(s.sums) == 0) {
		return
	}
	bodies, times, others, places := s.bodies(), s.times(), s.others(), s.places()
	leads := s.leads()
	form := func(name string, f func()) {
		if s.cut || s.explained() {
			return
		}
		s.forms = append(s.forms, name)
		f()
	}
	form("body", func() {
		for _, b := range bodies {
			s.try(b)
		}
	})
	form("time and body", func() {
		for _, t := range times {
			for _, b := range bodies {
				s.arrange([]piece{t, b}, leads)
			}
		}
	})
	form("header and body", func() {
		for _, h := range others {
			for _, b := range bodies {
				s.arrange([]piece{h, b}, nil)
			}
		}
	})
	form("header, time and body", func() {
		for _, h := range others {
			for _, t := range times {
				for _, b := range bodies {
					s.arrange([]piece{h, t, b}, leads)
				}
			}
		}
	})
	method := piece{value: []byte(s.c.req.Method), part: providers.Part{Word: "method"}}
	form("address and body, with time and method", func() {
		for _, u := range places {
			for _, b := range bodies {
				s.arrange([]piece{u, b}, nil)
				s.arrange([]piece{method, u, b}, nil)
				for _, t := range times {
					s.arrange([]piece{u, t, b}, nil)
					s.arrange([]piece{method, u, t, b}, nil)
				}
			}
		}
	})
	form("plain digest of secret and body, with time, address and method", func() {
		secret := piece{key: true, part: providers.Part{Word: "secret"}}
		for _, b := range bodies {
			s.arrange([]piece{secret, b}, nil)
			for _, t := range times {
				s.arrange([]piece{secret, t, b}, nil)
			}
			for _, h := range others {
				s.arrange([]piece{secret, h, b}, nil)
			}
			for _, u := range places {
				s.arrange([]piece{secret, u, b}, nil)
				s.arrange([]piece{secret, method, u, b}, nil)
			}
		}
		s.arrange([]piece{secret, secret, bodies[0]}, nil)
	})
	if len(s.matches) > 0 {
		return // what follows takes long, and is seldom
	}
	form("members of the content", s.members)
	form("address without body, time or headers without body", func() {
		for _, u := range places {
			s.try(u)
			for _, t := range times {
				s.arrange([]piece{u, t}, nil)
				s.arrange([]piece{method, u, t}, nil)
			}
			for _, h := range others {
				s.arrange([]piece{u, h}, nil)
			}
		}
		for _, t := range times {
			s.try(t)
			for _, h := range others {
				s.arrange([]piece{h, t}, nil)
			}
		}
		for _, h := range others {
			s.try(h)
		}
	})
	form("two headers and body, with time", func() {
		for i, h := range others {
			for j, g := range others {
				if i >= j {
					continue
				}
				s.arrange([]piece{h, g, bodies[0]}, nil)
				for _, t := range times {
					s.arrange([]piece{h, g, t, bodies[0]}, nil)
				}
			}
		}
	})
	form("address, header and body with two separators", func() {
		for _, u := range places {
			for _, x := range slices.Concat(others, times) {
				for _, b := range bodies {
					s.mixed([]piece{u, b, x})
				}
			}
		}
	})
	form("address, header, time and body", func() {
		for _, u := range places {
			for _, h := range others {
				for _, t := range times {
					s.arrange([]piece{u, h, t, bodies[0]}, nil)
				}
			}
		}
	})
}

// explained reports whether a signature was found, and no other value is named as
// one is.
func (s *search) explained() bool {
	return len(s.matches) > 0 && !slices.ContainsFunc(s.all, func(c carrier) bool {
		return c.kind != "json" && !s.matched[string(c.sum)] && s.isSignature(&c.leaf) && !slices.ContainsFunc(s.matches, func(m match) bool { return m.carrier.leaf.name == c.leaf.name })
	})
}

// arrange tries the parts in every order, with every separator, and behind every
// lead.
func (s *search) arrange(parts []piece, leads []string) {
	permute(parts, func(order []piece) {
		for _, separator := range separators {
			message := joined(order, separator)
			s.try(message...)
			for _, lead := range leads {
				s.try(append([]piece{literal(lead + separator)}, message...)...)
			}
		}
	})
}

// mixed tries three groups of parts with two separators.
func (s *search) mixed(parts []piece) {
	if len(parts) < 3 {
		return
	}
	permute(parts, func(order []piece) {
		for _, a := range separators {
			for _, b := range separators {
				if a == b || s.cut || len(order) != 3 {
					continue
				}
				s.try(slices.Concat(order[:1], between(a), order[1:2], between(b), order[2:])...)
			}
		}
	})
}

func literal(text string) piece {
	return piece{value: []byte(text), part: providers.Part{Literal: text}}
}

func between(separator string) []piece {
	if separator == "" {
		return nil
	}
	return []piece{literal(separator)}
}

func joined(parts []piece, separator string) []piece {
	var out []piece
	for i, p := range parts {
		if i > 0 {
			out = append(out, between(separator)...)
		}
		out = append(out, p)
	}
	return out
}

func permute(parts []piece, visit func([]piece)) {
	if len(parts) > 4 {
		visit(parts)
		return
	}
	var place func(done, left []piece)
	place = func(done, left []piece) {
		if len(left) == 0 {
			visit(done)
			return
		}
		for i := range left {
			place(append(slices.Clone(done), left[i]), slices.Concat(left[:i], left[i+1:]))
		}
	}
	place(nil, parts)
}

// bodies are what can stand for the content.
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

// sortedForm writes a form as providers do that sign its names and values.
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

// maxTimes and maxOthers bound how many values take part in combinations.
const maxTimes, maxOthers = 6, 14

// times are the values that can be the time of signing.
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

// others are the headers and parameters that can be signed beside the content.
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
	// A name that says what it is goes before the others.
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

// places are the parts of the address that can be signed.
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

// leads are what a versioned scheme writes before what it signs: v0, v1 and the
// label of a signature.
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

// maxMembers is how many members of the content take part in combinations.
const maxMembers = 14

// members tries the members of the content that stand beside the signature, and
// those at the root.
func (s *search) members() {
	var pieces []piece
	add := func(l leaf) {
		if l.value == "" || len(l.value) > 512 || len(pieces) >= maxMembers || slices.ContainsFunc(pieces, func(p piece) bool { return p.part.JSON == l.name && p.part.Form == "" || p.part.Form == l.name }) {
			return
		}
		p := piece{value: []byte(l.value), part: part(&l), field: true}
		if at, ok := readClock(l.value); ok {
			p.stamp = &stamp{l.kind, l.name, at.unit}
		}
		pieces = append(pieces, p)
	}
	for i := range s.all {
		if c := &s.all[i]; c.kind == "json" && s.plausible(c) {
			parent := c.leaf.name[:strings.LastIndexByte(c.leaf.name, '.')+1]
			for _, l := range s.c.json {
				if rest, ok := strings.CutPrefix(l.name, parent); ok && !strings.Contains(rest, ".") && l.name != c.leaf.name {
					add(l)
				}
			}
		}
	}
	for _, l := range slices.Concat(s.c.form, s.c.json) {
		if !strings.Contains(l.name, ".") || l.kind == "form" {
			add(l)
		}
	}
	for i := range pieces {
		s.try(pieces[i])
		for j := range pieces {
			if i == j {
				continue
			}
			for _, separator := range separators {
				s.try(joined([]piece{pieces[i], pieces[j]}, separator)...)
			}
			for k := range pieces {
				if k == i || k == j {
					continue
				}
				for _, separator := range separators {
					s.try(joined([]piece{pieces[i], pieces[j], pieces[k]}, separator)...)
				}
			}
		}
	}
}

// plausible reports whether a member's name is that of a signature.
func (s *search) plausible(c *carrier) bool {
	name := strings.ToLower(c.leaf.name)
	return strings.Contains(name, "sig") || strings.Contains(name, "hmac") || strings.Contains(name, "hash")
}

func part(l *leaf) providers.Part {
	switch l.kind {
	case "form":
		return providers.Part{Form: l.name}
	case "query":
		return providers.Part{Query: l.name}
	case "header":
		return providers.Part{Header: []string{l.name}}
	}
	return providers.Part{JSON: l.name}
}

func (s *search) tried() Tried {
	t := Tried{Combinations: s.count, Carriers: described(s.all), Forms: s.forms, Cut: s.cut}
	for i := range s.keys {
		t.Keys = append(t.Keys, s.keys[i].text)
	}
	for i := range s.publics {
		t.Keys = append(t.Keys, s.publics[i].text+" ("+s.publics[i].algorithm+")")
	}
	return t
}

// fits are the matches as sections of a provider, one for each signature.
func (s *search) fits() []Fit {
	var out []Fit
	seen := map[string]bool{}
	for i := range s.matches {
		m := &s.matches[i]
		id := m.carrier.where() + "\x00" + string(m.carrier.sum)
		if seen[id] {
			continue // the same bytes, read in another way
		}
		if strings.Contains(m.alg, "md5") || m.alg == "sha512" || m.alg == "sha384" {
			seen[id] = true
			s.near = append(s.near, fmt.Sprintf("%s is the %s of %s: no provider can be written for it; ask the sender for HMAC-SHA256", m.carrier.text(), strings.ToUpper(m.alg), spoken(m.pieces)))
			continue
		}
		seen[id] = true
		out = append(out, m.fit())
	}
	return out
}
