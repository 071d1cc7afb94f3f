package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/oncegate/oncegate/providers"
)

// Setting is what a source gives its provider beside the secrets.
type Setting struct {
	// Written is what stands in the configuration: a value, or env:NAME or
	// file:PATH. Only that can be printed.
	Written []string

	values []string
}

// Values gives the source's settings, references resolved.
func (s *Source) Values() map[string][]string {
	out := make(map[string][]string, len(s.Settings))
	for name, setting := range s.Settings {
		out[name] = setting.values
	}
	return out
}

// settings reads the settings of a source: one value each, or a list. A value
// may be env:NAME or file:PATH.
func (r *reader) settings(n ast.Node, where string) map[string]Setting {
	out := map[string]Setting{}
	for _, f := range r.fields(n, where) {
		nodes := []ast.Node{f.value}
		if _, many := f.value.(*ast.SequenceNode); many {
			nodes = r.list(f.value, where+"."+f.name)
		}
		var setting Setting
		for _, node := range nodes {
			var value string
			r.reference(field{name: f.name, key: f.key, value: node}, where, &value, verbatim)
			setting.Written = append(setting.Written, scalar(node))
			setting.values = append(setting.values, value)
		}
		out[f.name] = setting
	}
	return out
}

// checkSettings asks the provider about them. What it calls a secret must be a
// reference.
func (r *reader) checkSettings(s *Source, p *providers.Provider, at ast.Node, where string) {
	if err := p.CheckSettings(s.Values()); err != nil {
		for _, line := range lines(err) {
			r.at(at, "%s.settings: %s", where, line)
		}
	}
	for _, declared := range p.Spec().Settings {
		for _, written := range s.Settings[declared.Name].Written {
			if declared.Secret && !strings.HasPrefix(written, "env:") && !strings.HasPrefix(written, "file:") {
				r.at(at, "%s.settings.%s: is a secret: give a reference, env:NAME or file:PATH", where, declared.Name)
			}
		}
	}
}
