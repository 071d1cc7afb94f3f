package jsonspan

import (
	"fmt"
	"slices"
	"strings"
)

// ParsePath reads a path as configurations write it: names joined by dots, in which * stands for any member or element.
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

// JoinPath puts a name at the end of a path of names joined by dots.
func JoinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
