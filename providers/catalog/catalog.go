// Package catalog contains the providers that Oncegate knows, one YAML file each. [Load] returns
// all of them, [Names] their names. [Parse] reads your own provider, which may extend one of them.
package catalog

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/providers"
)

//go:embed *.yaml
var files embed.FS

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a file of the catalog. Do not change it.
func Schema() []byte { return schema }

// Load parses the whole catalogue. The error names every problem of every file.
func Load() (map[string]*providers.Provider, error) {
	names, err := Names()
	if err != nil {
		return nil, err
	}
	loaded := make(map[string]*providers.Provider, len(names))
	read := make(map[string]bool, len(names))
	var errs []error
	// Load reads in rounds: a provider that extends another is read once the other is loaded. Two
	// levels of extension are allowed, to keep the files readable.
	for round := range 3 {
		for _, name := range names {
			text, err := files.ReadFile(name + ".yaml")
			if err != nil {
				return nil, fmt.Errorf("reading provider %s: %w", name, err)
			}
			if read[name] || level(string(text), loaded, round) != round {
				continue
			}
			read[name] = true
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

// level returns the round in which a file is read, which is after the provider that it extends. The
// last round reads every remaining file, so that a file that extends an unknown provider is
// reported.
func level(text string, loaded map[string]*providers.Provider, round int) int {
	first, _, _ := strings.Cut(text, "\n")
	base, extends := strings.CutPrefix(first, "extends: ")
	switch {
	case !extends:
		return 0
	case round == 2 || round == 1 && loaded[base] != nil:
		return round
	}
	return round + 1
}

// Names returns the names of the catalogue, sorted.
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

// Parse parses a custom provider. It may extend a provider of the catalogue.
func Parse(name string, yaml []byte) (*providers.Provider, error) {
	loaded, err := Load()
	if err != nil {
		return nil, err
	}
	return providers.ParseOver(name, yaml, loaded)
}
