package draft

import (
	"bytes"
	"crypto/hmac"
	"slices"
)

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

// inTime counts one message and reports whether there is time for it.
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

// try compares the signatures of the request with those of one message.
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
