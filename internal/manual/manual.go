// Package manual makes web pages of the documentation in Markdown, and searches it.
package manual

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/yuin/goldmark" // CommonMark in pure Go, without dependencies
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
)

// index is the page that lists all others.
const index = "README.md"

// Manual is the documentation. It does not change, so any number of goroutines may use it.
type Manual struct {
	pages  map[string]*Page
	files  fs.FS
	listed []listed
	// definitions contains the definitions of each word, by the word in lower case.
	definitions map[string][]Definition
	groups      []Group
	sections    []section
}

// Group is a group of pages, such as the guides.
type Group struct {
	Title string
	Pages []*Page
}

// Page is one page.
type Page struct {
	// Path is the address of the page relative to the address of the manual, such as guides/order. The index has an empty one.
	Path string

	// Title is the text of the first heading.
	Title string

	// HTML is the page without its first heading.
	HTML string

	// Headings are the headings of the second level.
	Headings []Heading

	// Parent is the page that lists this one, if it is not the index. The parent of reference/commands/events is reference/commands.
	Parent *Page

	// Children are the pages that this one lists, in its order.
	Children []*Page

	links []string // the addresses to which the page leads
}

// Heading is a heading of a page.
type Heading struct{ Anchor, Text string }

// New reads all pages. The address of the manual is root, for example /docs. Links that lead out of the directory lead to the
// repository, which has an address for each file.
func New(files fs.FS, root, repository string) (*Manual, error) {
	m := &Manual{pages: map[string]*Page{}, definitions: map[string][]Definition{}, files: files}
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()), // the pages are part of the program
	)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return err //nolint:wrapcheck // it has the name
		}
		b := &builder{manual: m, name: name, source: source, root: root, repository: repository, markdown: markdown}
		return b.build()
	})
	if err != nil {
		return nil, fmt.Errorf("reading the documentation: %w", err)
	}
	if m.pages[""] == nil {
		return nil, fmt.Errorf("the documentation has no %s", index)
	}
	return m, m.group(root)
}

// Page returns the page at an address, or nil.
func (m *Manual) Page(address string) *Page { return m.pages[address] }

// File returns a file that pages offer, such as the rules of alerts.
func (m *Manual) File(name string) ([]byte, bool) {
	if path.Ext(name) == ".md" || !fs.ValidPath(name) {
		return nil, false
	}
	content, err := fs.ReadFile(m.files, name)
	return content, err == nil
}

// addressOf returns the address of a file relative to the address of the manual.
func addressOf(name string) string {
	if name == index {
		return ""
	}
	return strings.TrimSuffix(name, ".md")
}
