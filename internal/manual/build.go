package manual

import (
	"bytes"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// builder makes one page.
type builder struct {
	manual     *Manual
	name       string
	source     []byte
	root       string
	repository string
	markdown   goldmark.Markdown
}

func (b *builder) build() error {
	tree := b.markdown.Parser().Parse(text.NewReader(b.source))
	page := &Page{Path: addressOf(b.name)}
	b.tidy(page, tree)
	for node := tree.FirstChild(); node != nil; {
		next := node.NextSibling()
		if heading, ok := node.(*ast.Heading); ok {
			words, anchor := b.words(heading), anchorOf(heading)
			switch {
			case heading.Level == 1 && page.Title == "":
				page.Title = words
				tree.RemoveChild(tree, node)
			case heading.Level == 2:
				page.Headings = append(page.Headings, Heading{anchor, words})
			}
		}
		node = next
	}
	if page.Path == "" {
		b.list(tree)
	}
	b.index(page, tree)
	b.define(page, tree)
	var out bytes.Buffer
	if err := b.markdown.Renderer().Render(&out, b.source, tree); err != nil {
		return err //nolint:wrapcheck // New says what it is about
	}
	// A wide block scrolls by itself, so it must be reachable with the keyboard. Text is escaped, so that only blocks match.
	page.HTML = strings.ReplaceAll(out.String(), "<pre>", `<pre tabindex="0">`)
	b.manual.pages[page.Path] = page
	return nil
}

// tidy removes comments, which are for those who write the pages, and has links lead to addresses of the manual.
func (b *builder) tidy(page *Page, tree ast.Node) {
	var comments []ast.Node
	_ = ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.HTMLBlock:
			if node.HTMLBlockType == ast.HTMLBlockType2 {
				comments = append(comments, node)
			}
		case *ast.RawHTML:
			if strings.HasPrefix(string(node.Segments.Value(b.source)), "<!--") {
				comments = append(comments, node)
			}
		case *east.Table:
			node.SetAttributeString("tabindex", "0") // as of a wide block, see build
			b.label(node)
		case *ast.Link:
			address := b.address(string(node.Destination))
			page.links = append(page.links, address)
			node.Destination = []byte(address)
		}
		return ast.WalkContinue, nil
	})
	for _, node := range comments {
		node.Parent().RemoveChild(node.Parent(), node)
	}
}

// label has each cell of a table name its column, because a narrow page shows rows as cards.
func (b *builder) label(table *east.Table) {
	var heads []string
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		at := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if _, ok := row.(*east.TableHeader); ok {
				heads = append(heads, b.words(cell))
			} else if at < len(heads) {
				cell.SetAttributeString("data-label", heads[at])
			}
			at++
		}
	}
}

// address returns the address to which a link of the page leads.
func (b *builder) address(link string) string {
	target, anchor, found := strings.Cut(link, "#")
	if strings.Contains(target, "://") || target == "" {
		return link
	}
	if found {
		anchor = "#" + anchor
	}
	to := path.Join(path.Dir(b.name), target)
	switch {
	case strings.HasPrefix(to, "../"):
		return b.repository + strings.TrimPrefix(to, "../") + anchor
	case path.Ext(to) == ".md":
		return strings.TrimSuffix(b.root+"/"+addressOf(to), "/") + anchor
	}
	if _, ok := b.manual.File(to); ok {
		return b.root + "/" + to
	}
	return b.repository + "docs/" + to + anchor
}

// words returns the text of a node without its markup.
func (b *builder) words(node ast.Node) string {
	var out strings.Builder
	_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		switch node := node.(type) {
		case *ast.Text:
			if entering {
				out.Write(node.Value(b.source))
				if node.SoftLineBreak() || node.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				out.Write(node.Lines().Value(b.source))
			}
		default:
			if !entering && node.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(out.String()), " ")
}

// anchorOf returns the anchor of a heading.
func anchorOf(heading *ast.Heading) string {
	id, ok := heading.AttributeString("id")
	if !ok {
		return ""
	}
	anchor, _ := id.([]byte)
	return string(anchor)
}
