package providers

import (
	"strings"

	"github.com/goccy/go-yaml"
)

// OriginDefault is the origin of a value that no document sets.
const OriginDefault = "default"

// Origin returns the name of the provider whose document sets a part of the spec, which may be one
// that this provider extends, or [OriginDefault]. The path leads to a value that is not a
// mapping, such as verify.timestamp.past, or to one member of a mapping with free keys.
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

// hasOwn reports whether the provider's own document sets the path, or a list that contains it.
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

// replacesBase reports whether the provider does not inherit the base's value at the path.
func (p *Provider) replacesBase(path string) bool {
	switch {
	case path == "title", path == "checked", path == "proved_by", path == "example.source", path == "example.own":
		return true
	case path == "identity" || strings.HasPrefix(path, "identity."), path == "reconcile" || strings.HasPrefix(path, "reconcile."):
		return p.own["identity.mode"] || p.own["identity.candidates"] || p.own["identity.hash"]
	case strings.HasPrefix(path, "types."):
		return p.own["type"]
	}
	return false
}

// Inherited is a part of a provider that it inherits from the one that it extends.
type Inherited struct {
	// Path is the key, and From the provider whose document sets it.
	Path, From string
	// Value is the value as it would be written in YAML.
	Value any
}

// senderFacts lists the parts that describe how long one sender delivers, and which answers it
// expects. They need not be true of another sender.
var senderFacts = []string{
	"ack.status", "ack.content_type", "ack.body", "ack.headers", "ack.empty",
	"reject.status", "reject.content_type", "reject.body", "reject.headers", "reject.empty",
	"verify.timestamp.past", "verify.timestamp.future",
	"windows.retry.for", "windows.resend.for", "windows.list.for", "windows.floor", "windows.age", "windows.ack_within", "windows.failures",
}

// Inherited returns the answers, tolerances and windows that the provider inherits and does not set
// itself. They describe another sender, so the author of the provider should set them. It is empty
// for a provider that extends no other.
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

// treeValue returns the value at a path of a tree.
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
