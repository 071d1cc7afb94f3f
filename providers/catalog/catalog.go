// Package catalog holds the providers Oncegate knows, one YAML file each, and
// reads the custom ones a user writes in the same shape.
package catalog

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/providers"
)

//go:embed *.yaml
var files embed.FS

// Load reads the whole catalogue. The error names every problem of every file.
func Load() (map[string]*providers.Provider, error) {
	names, err := Names()
	if err != nil {
		return nil, err
	}
	loaded := make(map[string]*providers.Provider, len(names))
	var errs []error
	// Twice: what extends a provider is read once that is there. One level is
	// enough for a catalogue, and keeps a file readable.
	for _, extending := range []bool{false, true} {
		for _, name := range names {
			text, err := files.ReadFile(name + ".yaml")
			if err != nil {
				return nil, fmt.Errorf("reading provider %s: %w", name, err)
			}
			if strings.HasPrefix(string(text), "extends:") != extending {
				continue
			}
			provider, err := providers.ParseOver(name, text, loaded)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			loaded[name] = provider
		}
	}
	return loaded, errors.Join(errs...)
}

// Names lists the catalogue, sorted.
func Names() ([]string, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names, nil
}

// Parse reads a custom provider. It may extend one of the catalogue.
func Parse(name string, yaml []byte) (*providers.Provider, error) {
	loaded, err := Load()
	if err != nil {
		return nil, err
	}
	return providers.ParseOver(name, yaml, loaded)
}

// ParseNode reads a custom provider that is a part of a configuration file, so
// that problems carry the file's lines.
func ParseNode(name string, node ast.Node) (*providers.Provider, error) {
	loaded, err := Load()
	if err != nil {
		return nil, err
	}
	return providers.ParseNode(name, node, loaded)
}
