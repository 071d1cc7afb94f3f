package inbox

import (
	"bytes"
	"crypto/sha256"
)

// Comparison decides whether two payloads of a source, or of one of its operations, are the same.
type Comparison struct {
	// Canonical gives the one form of all payloads that are the same. ok is false if the body
	// has none (not JSON); such bodies are compared byte by byte.
	Canonical func(body []byte) (canonical []byte, ok bool)

	// Differences names the JSON paths in which two bodies differ, never their
	// values, at most 20.
	Differences func(first, other []byte) []string

	// Mark tells the hashes of this comparison from those of others: it is hashed before the
	// form. A stored hash says by it how it was made. Empty is that of a source's own
	// comparison. Stored: never change.
	Mark string

	// Former are other comparisons whose hashes may be stored, since the operation was
	// declared in another way before. A payload whose hash is one of theirs is the same.
	Former []*Comparison
}

// MarkMeaning is the [Comparison.Mark] of comparisons by meaning. Stored: never change.
const MarkMeaning = "oncegate meaning 1\n"

// Sum is the hash of the body's canonical form; nil if it has none.
func (c *Comparison) Sum(body []byte) []byte {
	if c.Canonical == nil {
		return nil
	}
	canonical, ok := c.Canonical(body)
	if !ok {
		return nil
	}
	sum := sha256.Sum256(append([]byte(c.Mark), canonical...))
	return sum[:]
}

// Recognizes reports whether the body is the payload whose hash is stored, by this comparison or
// by one of the former.
func (c *Comparison) Recognizes(stored, body []byte) bool {
	if stored == nil {
		return false
	}
	if bytes.Equal(c.Sum(body), stored) {
		return true
	}
	for _, former := range c.Former {
		if bytes.Equal(former.Sum(body), stored) {
			return true
		}
	}
	return false
}

// Comparison is how payloads of events of the type are compared.
func (s *Source) Comparison(eventType string) *Comparison {
	if c := s.Comparisons[eventType]; c != nil {
		return c
	}
	return &Comparison{Canonical: s.Canonical, Differences: s.Differences}
}
