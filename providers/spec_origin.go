package providers

import (
	"strings"

	"github.com/goccy/go-yaml"
)

// OriginDefault is the origin of what no document says.
const OriginDefault = "default"

// Origin tells where a part of the spec was written: the name of the provider whose
// document has it, which may be one that this provider extends, or
// [OriginDefault]. The path is that of a value that is not a mapping, such as
// verify.timestamp.past, or of one member of a mapping with free keys.
func (p *Provider) Origin(path string) string {
	for at := p; at != nil; at = at.base {
		if at.hasOwn(path) {
			return at.name
		}
		if at.replacesBase(path) {
			break
		}
	}
	return OriginDefault
}

// hasOwn reports whether the provider's own document has the path, or a list that
// it is in.
func (p *Provider) hasOwn(path string) bool {
	for {
		if p.own[path] {
			return true
		}
		i := strings.LastIndexByte(path, '[')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

// replacesBase reports whether what the base has at the path is not taken over.
func (p *Provider) replacesBase(path string) bool {
	switch {
	case path == "title", path == "checked", path == "example.source", path == "example.own":
		return true
	case path == "identity" || strings.HasPrefix(path, "identity."):
		return p.own["identity.mode"] || p.own["identity.candidates"] || p.own["identity.hash"]
	}
	return false
}

// Inherited is a part of a provider that it has from the one that it extends.
type Inherited struct {
	// Path is the key, and From the provider whose document has it.
	Path, From string
	// Value is how it would be written.
	Value any
}

// senderFacts are the parts that say how long, and with what answer, one sender
// delivers: what holds for the base need not hold for another sender.
var senderFacts = []string{
	"ack.status", "ack.content_type", "ack.body", "ack.headers", "ack.empty",
	"reject.status", "reject.content_type", "reject.body", "reject.headers", "reject.empty",
	"verify.timestamp.past", "verify.timestamp.future",
	"windows.retry.for", "windows.resend.for", "windows.list.for", "windows.floor", "windows.age", "windows.ack_within",
}

// Inherited gives the answers, tolerances and windows that the provider has from
// the one that it extends and does not say itself: they were found out about another
// sender, and whoever extends it is to write them. It is empty for a provider
// that stands alone.
func (p *Provider) Inherited() []Inherited {
	if p.base == nil {
		return nil
	}
	var out []Inherited
	tree := p.spec.Tree()
	for _, path := range senderFacts {
		value, ok := treeValue(tree, strings.Split(path, "."))
		if !ok || strings.HasPrefix(path, "verify.timestamp") && (p.spec.Verify.Timestamp.From == "none" || p.spec.Verify.Timestamp.Unsigned) {
			continue
		}
		if origin := p.Origin(path); origin != p.name && origin != OriginDefault {
			out = append(out, Inherited{Path: path, From: origin, Value: value})
		}
	}
	return out
}

// treeValue finds a value in a tree.
func treeValue(tree yaml.MapSlice, path []string) (any, bool) {
	for _, item := range tree {
		if item.Key != path[0] {
			continue
		}
		if len(path) == 1 {
			return item.Value, true
		}
		inner, ok := item.Value.(yaml.MapSlice)
		if !ok {
			return nil, false
		}
		return treeValue(inner, path[1:])
	}
	return nil, false
}
