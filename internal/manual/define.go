package manual

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// Definition is what one place of the documentation says about a word: a row of a table that begins with it, or a section with it as the
// heading.
type Definition struct {
	Page            *Page
	Anchor, Heading string // of the section with the table; the heading of the section itself

	// Fields are the other cells of the row, by the heads of their columns. A section has one without a name.
	Fields []Field
}

// Field is a cell of a row.
type Field struct{ Name, Value string }

// Define returns what the documentation says about a word: a code, a reason, a state, a metric, an alert, a key of the configuration or a word of
// the glossary. Case does not matter. The reference comes first.
func (m *Manual) Define(word string) []Definition {
	found := slices.Clone(m.definitions[strings.ToLower(strings.TrimSpace(word))])
	slices.SortStableFunc(found, func(a, b Definition) int {
		return strings.Compare(rank(a.Page), rank(b.Page))
	})
	return found
}

// Words returns all words that [Manual.Define] knows.
func (m *Manual) Words() []string { return slices.Sorted(maps.Keys(m.definitions)) }

func rank(p *Page) string {
	if strings.HasPrefix(p.Path, "reference/") {
		return "0" + p.Path
	}
	return "1" + p.Path
}

// named matches headings that are a single name, such as the name of an alert.
var named = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([A-Z_.-][A-Za-z0-9]+)+$`)

// define adds the words that a page defines. Tables of figures begin with sentences, so nothing is taken from them.
func (b *builder) define(page *Page, tree ast.Node) {
	anchor, heading := "", page.Title
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		switch node := node.(type) {
		case *ast.Heading:
			anchor, heading = anchorOf(node), b.words(node)
			if text := b.below(node); named.MatchString(heading) && text != "" {
				b.add(heading, Definition{page, anchor, heading, []Field{{Value: text}}})
			}
		case *east.Table:
			b.defineRows(node, Definition{Page: page, Anchor: anchor, Heading: heading})
		}
	}
}

func (b *builder) add(word string, d Definition) {
	word = strings.ToLower(word)
	b.manual.definitions[word] = append(b.manual.definitions[word], d)
}

// below returns the text between a heading and the next one.
func (b *builder) below(heading ast.Node) string {
	var parts []string
	for node := heading.NextSibling(); node != nil; node = node.NextSibling() {
		if _, ok := node.(*ast.Heading); ok {
			break
		}
		parts = append(parts, b.words(node))
	}
	return strings.Join(parts, "\n")
}

// defineRows adds the rows of a table whose first cell is a code or is in bold.
func (b *builder) defineRows(table *east.Table, d Definition) {
	var heads []string
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, b.words(cell))
		}
		if _, ok := row.(*east.TableHeader); ok {
			heads = cells
			continue
		}
		d.Fields = nil
		for i := 1; i < len(cells) && i < len(heads); i++ {
			if cells[i] != "" {
				d.Fields = append(d.Fields, Field{heads[i], cells[i]})
			}
		}
		for _, word := range b.marked(row.FirstChild()) {
			b.add(word, d)
		}
	}
}

// marked returns the codes and the words in bold of a cell.
func (b *builder) marked(cell ast.Node) []string {
	var words []string
	_ = ast.Walk(cell, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		bold, ok := node.(*ast.Emphasis)
		if _, code := node.(*ast.CodeSpan); entering && (code || ok && bold.Level == 2) {
			words = append(words, b.words(node))
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return words
}
