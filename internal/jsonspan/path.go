package jsonspan

import (
	"fmt"
	"slices"
	"strings"
)

// ParsePath parses a path from a configuration: names joined by dots, where * matches any member or
// element.
func ParsePath(path string) ([]string, error) {
	parts := strings.Split(path, ".")
	switch {
	case slices.Contains(parts, "") || strings.ContainsAny(path, "[]\"$"):
		return nil, fmt.Errorf("path %q is not names joined by dots, such as note or items.*.at", path)
	case len(parts) > MaxDepth/2:
		return nil, fmt.Errorf("path %q is too deep", path)
	}
	return parts, nil
}

// JoinPath appends a name to a path of names joined by dots.
func JoinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
