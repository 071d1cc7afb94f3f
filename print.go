package oncegate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// summary is what a Config shows of itself.
type summary struct {
	Schema  string   `json:"schema"`
	Role    string   `json:"role"`
	Sources []string `json:"sources"`
	Targets []string `json:"targets,omitempty"`
}

func (c Config) summary() summary {
	s := summary{Schema: cmp.Or(c.Schema, defaultSchema), Role: cmp.Or(string(c.Role), "both"), Sources: []string{}}
	for _, source := range c.Sources {
		s.Sources = append(s.Sources, source.Name)
	}
	for _, target := range c.Targets {
		s.Targets = append(s.Targets, target.Name)
	}
	if c.loaded != nil {
		for _, source := range c.loaded.Settings.Sources {
			s.Sources = append(s.Sources, source.Name)
		}
		for _, target := range c.loaded.Settings.Targets {
			s.Targets = append(s.Targets, target.Name)
		}
	}
	return s
}

// String names the schema, the role, the sources and the targets, and shows nothing else.
func (c Config) String() string {
	s := c.summary()
	return fmt.Sprintf("{schema:%s role:%s sources:%v targets:%v}", s.Schema, s.Role, s.Sources, s.Targets)
}

// Format implements [fmt.Formatter], for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue implements [slog.LogValuer].
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON implements [json.Marshaler]. What it gives cannot be read back.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.summary()) }

// String gives the name: the address of a target may hold credentials.
func (t Target) String() string { return t.Name }

// Format implements [fmt.Formatter], for every verb.
func (t Target) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue implements [slog.LogValuer].
func (t Target) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON implements [json.Marshaler]. What it gives cannot be read back.
func (t Target) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string{"name": t.Name}) }
