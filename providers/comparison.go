package providers

import (
	"bytes"
	"errors"
	"slices"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxDifferences is how many paths Differences returns.
const maxDifferences = 20

// Comparison decides whether two JSON payloads are equal.
type Comparison struct {
	volatile  [][]string
	byMeaning bool
	document  func(body []byte) []byte // [Provider.Document]
}

// Comparison returns a comparison of payloads. It ignores the members that the provider changes
// between deliveries, and those at the given paths: names joined by dots, in which * matches any
// member or element. It compares numbers and texts as written or, if byMeaning is true, by value:
// 100, 100.00 and 1e2 are one number, and white space around a text does not count.
func (p *Provider) Comparison(byMeaning bool, volatile []string) (*Comparison, error) {
	c := &Comparison{volatile: slices.Clone(p.volatile), byMeaning: byMeaning, document: p.Document}
	var errs []error
	for _, path := range volatile {
		parts, err := jsonspan.ParsePath(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.volatile = append(c.volatile, parts)
	}
	return c, errors.Join(errs...)
}

// ByMeaning reports whether the comparison compares numbers and texts by value.
func (c *Comparison) ByMeaning() bool { return c.byMeaning }

// Canonical returns the canonical form, which equal payloads have in common. ok is false if the
// body is not JSON, or has a key twice and is therefore ambiguous.
func (c *Comparison) Canonical(body []byte) (canonical []byte, ok bool) {
	if !c.byMeaning {
		return jsonspan.Canonical(c.document(body), c.volatile)
	}
	tree, ok := c.parse(body)
	if !ok {
		return nil, false
	}
	return tree.Append(make([]byte, 0, len(body))), true
}

// Differences returns the JSON paths in which two payloads differ, sorted, at most 20, and never
// the values. The path "$" means that one of them is not JSON.
func (c *Comparison) Differences(a, b []byte) []string {
	ta, okA := c.parse(a)
	tb, okB := c.parse(b)
	if !okA || !okB {
		if bytes.Equal(a, b) {
			return nil
		}
		return []string{"$"}
	}
	var out []string
	jsonspan.Compare(ta, tb, "", func(path string, _, _ *jsonspan.Tree) bool {
		out = append(out, path)
		return len(out) < maxDifferences
	})
	return out
}

func (c *Comparison) parse(body []byte) (*jsonspan.Tree, bool) {
	body = c.document(body)
	if c.byMeaning {
		return jsonspan.ParseMeaning(body, c.volatile)
	}
	return jsonspan.ParseTree(body, c.volatile)
}
