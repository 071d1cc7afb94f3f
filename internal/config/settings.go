package config

import (
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Setting is a value of a source for its provider, in addition to the secrets.
type Setting struct {
	// Written is the text in the configuration: values, or references env:NAME or file:PATH. Only
	// this text can be printed.
	Written []string

	values []string
}

// Values returns the source's settings with references resolved.
func (s *Source) Values() map[string][]string {
	out := make(map[string][]string, len(s.Settings))
	for name, setting := range s.Settings {
		out[name] = setting.values
	}
	return out
}

// settings reads the settings of a source. Each is one value or a list. A value may be a reference,
// env:NAME or file:PATH.
func (r *reader) settings(n *yamltree.Node) map[string]Setting {
	out := map[string]Setting{}
	for _, member := range n.Members() {
		var setting Setting
		for _, item := range member.Items() {
			value, _ := r.resolved(item)
			setting.Written = append(setting.Written, item.Value())
			setting.values = append(setting.values, value)
		}
		out[member.Name()] = setting
	}
	return out
}

// checkSettings validates the settings with the provider. A setting that the provider declares
// secret must be a reference.
func (r *reader) checkSettings(s *Source) {
	at := s.node.Below("settings")
	if n := s.node.Member("settings"); n != nil {
		at = n.Below("")
	}
	failLines(at, s.Provider.CheckSettings(s.Values()))
	for _, declared := range s.Provider.Spec().Settings {
		for _, written := range s.Settings[declared.Name].Written {
			if declared.Secret && !isReference(written) {
				at.Below(declared.Name).Fail("is a secret: give a reference, env:NAME or file:PATH")
			}
		}
	}
}
