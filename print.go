package oncegate

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
)

// String returns the schema, the role, and the names of the sources and the targets, and nothing
// else.
func (c Config) String() string {
	var sources, targets []string
	for i := range c.Sources {
		sources = append(sources, c.Sources[i].Name)
	}
	for i := range c.Targets {
		targets = append(targets, c.Targets[i].Name)
	}
	if c.loaded != nil {
		for _, source := range c.loaded.Sources {
			sources = append(sources, source.Name)
		}
		for _, target := range c.loaded.Targets {
			targets = append(targets, target.Name)
		}
	}
	return fmt.Sprintf("{schema:%s role:%s sources:%v targets:%v}", cmp.Or(c.Schema, defaultSchema), cmp.Or(string(c.Role), "both"), sources, targets)
}

// Format implements [fmt.Formatter], for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue implements [slog.LogValuer].
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText implements [encoding.TextMarshaler], which determines the JSON and YAML form.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String returns only the servers, because the address of a fetch may contain credentials.
func (f Fetch) String() string { return fmt.Sprintf("{hosts:%v}", f.Hosts) }

// Format implements [fmt.Formatter], for every verb.
func (f Fetch) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.String()) }

// LogValue implements [slog.LogValuer].
func (f Fetch) LogValue() slog.Value { return slog.StringValue(f.String()) }

// MarshalText implements [encoding.TextMarshaler], which determines the JSON and YAML form.
func (f Fetch) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// String returns only the name, because the address of a target may contain credentials.
func (t Target) String() string { return t.Name }

// Format implements [fmt.Formatter], for every verb.
func (t Target) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue implements [slog.LogValuer].
func (t Target) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements [encoding.TextMarshaler], which determines the JSON and YAML form.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
