package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5/pgconn"
)

// Change is a key in which two configurations differ. It contains no values.
type Change struct {
	// Key is the path of the key, such as sources.shop.routes, or a reference such as file:/run/secrets/shop.
	Key string `json:"key"`

	// What says what happened to the key: "added", "removed" or "changed".
	What string `json:"what"`

	// Fixed says that a process cannot change it while it runs.
	Fixed bool `json:"fixed,omitempty"`
}

// String names the key and what has happened to it.
func (c Change) String() string { return c.Key + " " + c.What }

// Changes returns in which keys the second configuration differs from the first one, by key. A reference whose file has
// another content is one of them.
func Changes(before, after *Config) []Change {
	var out []Change
	note := func(key, what string) {
		c := Change{Key: key, What: what, Fixed: fixed(key)}
		if key == "database.url" {
			c.Fixed = !sameDatabase(before.Database.URL, after.Database.URL)
		}
		out = append(out, c)
	}
	compareMaps("", before.unmasked(), after.unmasked(), note)
	for _, reference := range slices.Sorted(maps.Keys(after.references)) {
		if had, known := before.references[reference]; known && had != after.references[reference] {
			note(reference, "changed")
		}
	}
	return out
}

// SameTarget reports whether both configurations have a target of this name, with the same keys. It does not compare the
// values of headers and secrets, which say nothing about the limits of a target.
func SameTarget(before, after *Config, name string) bool {
	a, b := before.target(name), after.target(name)
	return a != nil && b != nil && reflect.DeepEqual(printed(a.keys()), printed(b.keys()))
}

func (c *Config) target(name string) *Target {
	for _, t := range c.Targets {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// unmasked is the effective configuration with the whole address of the database.
func (c *Config) unmasked() yaml.MapSlice {
	tree := c.effective()
	for i := range tree {
		section, ok := tree[i].Value.(yaml.MapSlice)
		switch {
		case !ok:
		case tree[i].Key == "database":
			c.Database.unmask(section)
		case tree[i].Key == "databases":
			for j, d := range c.Databases { // in the order in which they are printed
				d.unmask(section[j].Value.(yaml.MapSlice)) //nolint:forcetypeassert // as named prints it
			}
		}
	}
	return tree
}

// unmask writes the whole addresses into the printed section.
func (d *Database) unmask(section yaml.MapSlice) {
	for j := range section {
		switch section[j].Key {
		case "url":
			section[j].Value = d.URL
		case "list_url":
			section[j].Value = d.ListURL
		}
	}
}

// compareMaps notes the keys in which two mappings differ. A list is compared as a whole.
func compareMaps(path string, before, after yaml.MapSlice, note func(key, what string)) {
	had := map[string]any{}
	for _, item := range before {
		had[fmt.Sprint(item.Key)] = item.Value
	}
	for _, item := range after {
		name := fmt.Sprint(item.Key)
		key := strings.TrimPrefix(path+"."+name, ".")
		old, known := had[name]
		delete(had, name)
		oldMap, wasMap := old.(yaml.MapSlice)
		newMap, isMap := item.Value.(yaml.MapSlice)
		switch {
		case !known:
			note(key, "added")
		case wasMap && isMap:
			compareMaps(key, oldMap, newMap, note)
		case !reflect.DeepEqual(old, item.Value):
			note(key, "changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(had)) {
		note(strings.TrimPrefix(path+"."+name, "."), "removed")
	}
}

// fixed reports whether a process keeps a key as long as it runs: where it listens, and where its data is.
func fixed(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	return section == "listen" || section == "databases" || key == "database.url" || key == "database.schema"
}

// sameDatabase reports whether two connection strings lead to the same database as the same user. The password and other
// parameters of the connection may differ.
func sameDatabase(one, other string) bool {
	a, err := pgconn.ParseConfig(one)
	if err != nil {
		return false
	}
	b, err := pgconn.ParseConfig(other)
	if err != nil {
		return false
	}
	return a.User == b.User && a.Database == b.Database && slices.Equal(hosts(a), hosts(b))
}

func hosts(c *pgconn.Config) []string {
	out := []string{fmt.Sprintf("%s:%d", c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if at := fmt.Sprintf("%s:%d", f.Host, f.Port); !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// digests remembers what references led to, so that a rotated secret is noticed. It never leaves the process.
type digests map[string][sha256.Size]byte

func (d digests) note(reference, value string) { d[reference] = sha256.Sum256([]byte(value)) }
