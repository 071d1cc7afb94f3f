package yamltree

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxDepth limits the recursion, because a hostile document can be nested arbitrarily deep.
const maxDepth = 64

// Parse reads a document. It returns nil if the content is not YAML or contains more than one
// document, and adds the problem to the report. For an empty document it returns an empty node.
func Parse(content []byte, report *Report) *Node {
	root := &Node{report: report}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // a byte order mark, which some editors write
	file, err := parser.ParseBytes(content, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		// The library's message spans several lines and shows the source; its first line is
		// sufficient.
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			text, _, _ = strings.Cut(syntax.GetMessage(), "\n")
			root.place(syntax.GetToken())
		}
		root.Fail("not YAML: %s", text)
		return nil
	}
	var body ast.Node
	for _, document := range file.Docs {
		if document.Body == nil {
			continue
		}
		if body != nil {
			root.place(document.Body.GetToken())
			root.Fail("one document only, not several separated by ---")
			return nil
		}
		body = document.Body
	}
	root.fill(body, 0)
	return root
}

func (n *Node) place(at *token.Token) {
	if at != nil && at.Position != nil {
		n.line, n.column = at.Position.Line, at.Position.Column
	}
}

// fill converts the library's node. It reports YAML forms that this grammar does not have and marks
// them as unsupported, so that no reader reports them again.
func (n *Node) fill(from ast.Node, depth int) {
	if from == nil {
		return
	}
	if _, empty := from.(*ast.NullNode); !empty || n.line == 0 { // an explicit null keeps the position of its key
		n.place(from.GetToken())
	}
	if depth > maxDepth {
		n.refuse("nested too deeply")
		return
	}
	switch from := from.(type) {
	case *ast.NullNode, *ast.CommentGroupNode:
	case *ast.MappingValueNode:
		n.mapping([]*ast.MappingValueNode{from}, depth)
	case *ast.MappingNode:
		n.mapping(from.Values, depth)
		if from.IsFlowStyle {
			n.place(from.GetToken())
		}
	case *ast.SequenceNode:
		n.kind = list
		for i, value := range from.Values {
			item := &Node{report: n.report, parent: n, label: itemLabel(i)}
			if i < len(from.Entries) {
				item.place(from.Entries[i].Start) // the position of an empty element
			}
			item.fill(value, depth+1)
			n.children = append(n.children, item)
		}
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		n.refuse("anchors, aliases and tags are not supported; write the value out")
	default:
		text, ok := scalarText(from)
		if !ok {
			n.refuse("this form of YAML is not supported; write the value out")
			return
		}
		n.kind, n.text = scalar, text
	}
}

func (n *Node) mapping(pairs []*ast.MappingValueNode, depth int) {
	n.kind = mapping
	if len(pairs) > 0 {
		n.place(pairs[0].Key.GetToken())
	}
	for _, pair := range pairs {
		key := &Node{report: n.report, parent: n}
		key.place(pair.Key.GetToken())
		if pair.Key.IsMergeKey() {
			key.Fail("merge keys (<<) are not supported; write the keys out")
			continue
		}
		name, ok := keyText(pair.Key)
		if !ok {
			key.Fail("a key must be a single value, without anchors, aliases and tags")
			continue
		}
		if first := n.Member(name); first != nil {
			key.Fail("duplicate key %s, first on line %d", n.report.Quote(name), first.keyLine)
			continue
		}
		member := &Node{
			report: n.report, parent: n, name: name, label: name,
			line: key.line, column: key.column, keyLine: key.line, keyColumn: key.column,
		}
		member.fill(pair.Value, depth+1)
		n.children = append(n.children, member)
	}
}

func keyText(key ast.MapKeyNode) (string, bool) {
	if explicit, ok := key.(*ast.MappingKeyNode); ok {
		return scalarText(explicit.Value)
	}
	return scalarText(key)
}

// scalarText returns a single value's text.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}
