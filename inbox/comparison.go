package inbox

import (
	"crypto/sha256"
)

// Comparison decides whether two payloads of a source, or of one of its operations, are the same.
type Comparison struct {
	// Canonical returns the same bytes for all payloads that count as the same. ok is false if
	// the body has no canonical form (not JSON); such bodies are compared byte by byte.
	Canonical func(body []byte) (canonical []byte, ok bool)

	// Differences returns the JSON paths in which two bodies differ, at most 20, and never
	// their values.
	Differences func(first, other []byte) []string

	// Mark distinguishes the hashes of this comparison from those of others, because it is
	// hashed before the canonical form. The comparison of a source has an empty Mark. Stored:
	// never change.
	Mark string

	// Former are comparisons whose hashes may be stored, because the operation was declared
	// differently before. A payload whose hash by one of them is stored counts as the same.
	Former []*Comparison
}

// MarkMeaning is the [Comparison.Mark] of comparisons by meaning. Stored: never change it.
const MarkMeaning = "oncegate meaning 1\n"

// Sum returns the hash of the body's canonical form, or nil if it has none.
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

// Recognize returns the hash of the body, by this comparison or by a former one, of which stored is the stored form. It returns
// nil if there is none. secret is the one under which hashes are stored.
func (c *Comparison) Recognize(secret InstallationSecret, stored, body []byte) []byte {
	if stored == nil {
		return nil
	}
	if sum := c.Sum(body); secret.IsStoredHash(stored, sum) {
		return sum
	}
	for _, former := range c.Former {
		if sum := former.Sum(body); secret.IsStoredHash(stored, sum) {
			return sum
		}
	}
	return nil
}

// Comparison returns how the source compares payloads of events of the type.
func (s *Source) Comparison(eventType string) *Comparison {
	if c := s.Comparisons[eventType]; c != nil {
		return c
	}
	return &Comparison{Canonical: s.Canonical, Differences: s.Differences}
}
