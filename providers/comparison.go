package providers

import (
	"bytes"
	"errors"
	"slices"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxDifferences is how many paths Differences names.
const maxDifferences = 20

// Comparison decides whether two JSON payloads say the same.
type Comparison struct {
	volatile  [][]string
	byMeaning bool
}

// Comparison compares payloads without the members that the provider changes between
// deliveries, and without those at the given paths: names joined by dots, in which * stands for
// any member or element. Numbers and texts are compared as they are written or, byMeaning, by
// their value: 100, 100.00 and 1e2 are one number, and white space around a text does not count.
func (p *Provider) Comparison(byMeaning bool, volatile []string) (*Comparison, error) {
	c := &Comparison{volatile: slices.Clone(p.volatile), byMeaning: byMeaning}
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

// ByMeaning reports whether numbers and texts are compared by their value.
func (c *Comparison) ByMeaning() bool { return c.byMeaning }

// Canonical gives the one form of all payloads that say the same. ok is false if the body is not
// JSON, or has a key twice and so no one meaning.
func (c *Comparison) Canonical(body []byte) (canonical []byte, ok bool) {
	if !c.byMeaning {
		return jsonspan.Canonical(body, c.volatile)
	}
	tree, ok := c.parse(body)
	if !ok {
		return nil, false
	}
	return tree.Append(make([]byte, 0, len(body))), true
}

// Differences names the JSON paths in which two payloads differ, sorted, at most
// 20; never their values. "$" is the whole, where one of them is not JSON.
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
	if c.byMeaning {
		return jsonspan.ParseMeaning(body, c.volatile)
	}
	return jsonspan.ParseTree(body, c.volatile)
}
