package manual

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// listed is a group of the index before all pages are read.
type listed struct {
	title string
	links []string
}

// list reads the groups of the index: a paragraph that begins in bold names a group, and the links below it lead to its pages.
func (b *builder) list(tree ast.Node) {
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		if _, ok := node.(*ast.Paragraph); ok {
			if bold, ok := node.FirstChild().(*ast.Emphasis); ok && bold.Level == 2 {
				b.manual.listed = append(b.manual.listed, listed{title: b.words(bold)})
				continue
			}
		}
		if len(b.manual.listed) == 0 {
			continue
		}
		group := &b.manual.listed[len(b.manual.listed)-1]
		_ = ast.Walk(node, func(node ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
			if link, ok := node.(*ast.Link); ok && entering {
				group.links = append(group.links, string(link.Destination))
			}
			return ast.WalkContinue, nil
		})
	}
}

// group sorts the pages into the groups of the index. Each page must be in one, or be a child of a page, or readers would not find it.
func (m *Manual) group(root string) error {
	missing := maps.Clone(m.pages)
	delete(missing, "")
	for _, parent := range m.pages {
		m.adopt(root, parent, missing)
	}
	for _, l := range m.listed {
		group := Group{Title: l.title}
		for _, link := range l.links {
			address := pathOf(root, link)
			if page := missing[address]; page != nil {
				group.Pages = append(group.Pages, page)
				delete(missing, address)
			}
		}
		m.groups = append(m.groups, group)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s does not list %s", index, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return nil
}

// adopt makes children of the missing pages that a page lists and whose address is below its own.
func (m *Manual) adopt(root string, parent *Page, missing map[string]*Page) {
	for _, link := range parent.links {
		address := pathOf(root, link)
		if page := missing[address]; page != nil && path.Dir(address) == parent.Path {
			page.Parent = parent
			parent.Children = append(parent.Children, page)
			delete(missing, address)
		}
	}
}

// pathOf returns the path of the page to which a link leads.
func pathOf(root, link string) string {
	address, _, _ := strings.Cut(strings.TrimPrefix(link, root+"/"), "#")
	return address
}

// Groups returns the groups of the index, in its order. Do not change them.
func (m *Manual) Groups() []Group { return m.groups }
