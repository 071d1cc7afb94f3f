package manual

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// section is the part of a page below one heading. lower is its text for comparisons.
type section struct {
	page            *Page
	anchor, heading string
	text, lower     string
}

// Hit is a section that a search found.
type Hit struct {
	Page            *Page
	Anchor, Heading string

	// Before, Match and After are a part of the text around the first word of the query that the text contains.
	Before, Match, After string
}

// The limits of a search.
const (
	MaxQuery = 200 // bytes of a query; the rest is ignored
	maxWords = 8
	maxHits  = 30
	around   = 90 // bytes of text on each side of a match
)

// index adds the sections of a page to the search.
func (b *builder) index(page *Page, tree ast.Node) {
	current := section{page: page, heading: page.Title}
	var words []string
	finish := func() {
		current.text = strings.Join(words, " ")
		current.lower = strings.ToLower(current.heading + "\n" + current.text)
		b.manual.sections = append(b.manual.sections, current)
		words = nil
	}
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		if heading, ok := node.(*ast.Heading); ok {
			finish()
			current = section{page: page, anchor: anchorOf(heading), heading: b.words(heading)}
			continue
		}
		words = append(words, b.words(node))
	}
	finish()
}

// Search returns the sections that contain every word of the query, also as parts of longer words. Sections whose heading contains the
// words come first.
func (m *Manual) Search(query string) []Hit {
	if len(query) > MaxQuery {
		query = strings.ToValidUTF8(query[:MaxQuery], "")
	}
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	words = words[:min(len(words), maxWords)]
	type scored struct {
		*section
		score int
	}
	var found []scored
	for i := range m.sections {
		if score := m.sections[i].score(words); score > 0 {
			found = append(found, scored{&m.sections[i], score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	hits := make([]Hit, 0, min(len(found), maxHits))
	for _, f := range found[:min(len(found), maxHits)] {
		hits = append(hits, f.hit(words))
	}
	return hits
}

// score returns 0 for a section that lacks a word.
func (s *section) score(words []string) int {
	title, heading, sum := strings.ToLower(s.page.Title), strings.ToLower(s.heading), 0
	for _, word := range words {
		n := strings.Count(s.lower, word)
		if n == 0 {
			return 0
		}
		sum += min(n, 5)
		if strings.Contains(heading, word) {
			sum += 20
		}
		if strings.Contains(title, word) {
			sum += 10
		}
	}
	return sum
}

// hit returns the section with a part of its text.
func (s *section) hit(words []string) Hit {
	hit := Hit{Page: s.page, Anchor: s.anchor, Heading: s.heading}
	lower := strings.ToLower(s.text)
	for _, word := range words {
		at := strings.Index(lower, word)
		if at < 0 || len(lower) != len(s.text) {
			continue
		}
		from, to := boundary(s.text, at-around), boundary(s.text, at+len(word)+around)
		hit.Before, hit.Match, hit.After = s.text[from:at], s.text[at:at+len(word)], s.text[at+len(word):to]
		return hit
	}
	hit.Before = s.text[:boundary(s.text, 2*around)]
	return hit
}

// boundary returns the place at or after n at which a word and a character begin.
func boundary(text string, n int) int {
	if n <= 0 {
		return 0
	}
	for n < len(text) && (!utf8.RuneStart(text[n]) || text[n] != ' ') {
		n++
	}
	return min(n, len(text))
}
