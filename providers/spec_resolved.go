package providers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// ResolvedPart is one part of a provider with all defaults and inherited values.
type ResolvedPart struct {
	// Path is the key, such as verify.signature.headers.
	Path string `json:"path"`
	// Origin is the name of the provider whose document sets it, or [OriginDefault].
	Origin string `json:"origin"`
}

// Resolved writes the provider as a spec that extends no other. Each part has its origin as a
// comment: the provider itself, the one that it extends, or a default. The output can be parsed
// again.
func (p *Provider) Resolved() (text string, parts []ResolvedPart, err error) {
	w := resolver{p: p}
	if err := w.mapping(p.spec.Tree(), "", ""); err != nil {
		return "", nil, err
	}
	return w.out.String(), w.parts, nil
}

type resolver struct {
	p     *Provider
	out   strings.Builder
	parts []ResolvedPart
}

func (w *resolver) mapping(tree yaml.MapSlice, path, indent string) error {
	for _, item := range tree {
		key := fmt.Sprint(item.Key)
		at := jsonspan.JoinPath(path, key)
		switch value := item.Value.(type) {
		case yaml.MapSlice:
			fmt.Fprintf(&w.out, "%s%s:\n", indent, key)
			if err := w.mapping(value, at, indent+"  "); err != nil {
				return err
			}
		case map[string]string:
			if err := w.free(indent, key, at, sortedItems(value)); err != nil {
				return err
			}
		case map[string][]string:
			if err := w.free(indent, key, at, sortedItems(value)); err != nil {
				return err
			}
		default:
			if err := w.leaf(indent, key, at, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// free writes a mapping whose keys the document chooses.
func (w *resolver) free(indent, key, path string, items yaml.MapSlice) error {
	fmt.Fprintf(&w.out, "%s%s:\n", indent, key)
	for _, item := range items {
		name := fmt.Sprint(item.Key)
		written, err := flow(name)
		if err != nil {
			return err
		}
		if err := w.leaf(indent+"  ", written, jsonspan.JoinPath(path, name), item.Value); err != nil {
			return err
		}
	}
	return nil
}

func (w *resolver) leaf(indent, key, path string, value any) error {
	text, err := flow(value)
	if err != nil {
		return err
	}
	origin := w.p.Origin(path)
	w.parts = append(w.parts, ResolvedPart{path, origin})
	switch origin {
	case w.p.name:
		origin = "own"
	case OriginDefault:
	default:
		origin = "from " + origin
	}
	fmt.Fprintf(&w.out, "%s%s: %s # %s\n", indent, key, text, origin)
	return nil
}

// flow writes a value in one line.
func flow(value any) (string, error) {
	text, err := yaml.MarshalWithOptions(value, yaml.Flow(true), yaml.JSON())
	if err != nil {
		return "", fmt.Errorf("writing yaml: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func sortedItems[T any](values map[string]T) yaml.MapSlice {
	var out yaml.MapSlice
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, yaml.MapItem{Key: key, Value: values[key]})
	}
	return out
}
