package draft

import (
	"bytes"
	"crypto/hmac"
	"slices"
)

// match is an interpretation of the request with which a signature verifies.
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
	matched map[string]bool // signatures that a match explains
	count   int64
	total   int64
	cut     bool
	forms   []string
	near    []string
	algs    []algorithm
	buffer  bytes.Buffer
	sums    []int // indexes of the carriers that can be public-key signatures
	hashed  int64 // bytes hashed since the last call of Continue
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

// askEvery is the number of bytes to hash between two calls of Continue. perTry is the fixed cost
// of a message, in bytes, which is added to its length.
const askEvery, perTry = 1 << 20, 4 << 10

// inTime counts one message and reports whether the search may continue.
func (s *search) inTime() bool {
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

// try computes the digests of one message and compares them with the signatures in the request.
func (s *search) try(pieces ...piece) {
	if !s.inTime() {
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

// hit records the matches of one signature value. A time that a signature header contains is signed
// by that signature only, so a match that uses it with another header's signature is dropped.
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
