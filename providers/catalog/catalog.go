// Package catalog contains the providers that Oncegate knows, one YAML file each. [Lazy] returns
// those that are asked for, [Load] all of them, [Names] their names. [Parse] reads your own provider, which may extend one of them.
package catalog

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/oncegate/oncegate/providers"
)

//go:embed *.yaml
var files embed.FS

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a file of the catalog. Do not change it.
func Schema() []byte { return schema }

// Lazy is the catalogue. It parses a provider when it is first asked for, because most processes need
// few of them.
type Lazy struct {
	mu     sync.Mutex
	parsed providers.Map
}

// Provider returns a provider, or nil if the catalogue does not have it.
func (l *Lazy) Provider(name string) *providers.Provider {
	p, _ := l.parse(name) // the error of a file of the catalogue is found by Load, in tests
	return p
}

// Names returns the names of the catalogue, sorted.
func (l *Lazy) Names() []string { names, _ := Names(); return names }

// maxExtensions is how many levels of extension the files may have, to keep them readable.
const maxExtensions = 2

func (l *Lazy) parse(name string) (*providers.Provider, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parseOver(name, maxExtensions)
}

// parseOver parses a provider after the one that it extends. It returns nil for an unknown provider.
func (l *Lazy) parseOver(name string, levels int) (*providers.Provider, error) {
	if p := l.parsed[name]; p != nil {
		return p, nil
	}
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // the catalogue does not have it
	}
	bases := providers.Map{}
	first, _, _ := strings.Cut(string(text), "\n")
	if base, extends := strings.CutPrefix(first, "extends: "); extends && levels > 0 {
		if p, err := l.parseOver(base, levels-1); p != nil && err == nil {
			bases[base] = p
		}
	}
	p, err := providers.ParseOver(name, text, bases)
	if err != nil {
		return nil, err
	}
	if l.parsed == nil {
		l.parsed = providers.Map{}
	}
	l.parsed[name] = p
	return p, nil
}

// Load parses the whole catalogue. The error names every problem of every file.
func Load() (providers.Map, error) {
	names, err := Names()
	if err != nil {
		return nil, err
	}
	var (
		lazy Lazy
		errs []error
	)
	for _, name := range names {
		if _, err := lazy.parse(name); err != nil {
			errs = append(errs, err)
		}
	}
	return lazy.parsed, errors.Join(errs...)
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
