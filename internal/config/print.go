package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/goccy/go-yaml"
)

// Fingerprint returns a digest that changes when the configuration does and reveals nothing about
// its content. It excludes the settings that may differ between the processes of one installation:
// the database's address and connections, the listeners, the console, the memory for bodies and the
// log.
func (c *Config) Fingerprint() string {
	if c.fingerprint != nil {
		return c.fingerprint()
	}
	return c.digest()
}

// digest computes the fingerprint.
func (c *Config) digest() string {
	var shared yaml.MapSlice
	for _, part := range c.effective() { // not redacted, so that a changed token changes the digest
		if !slices.Contains([]any{"database", "databases", "listen", "console", "bodies", "log"}, part.Key) {
			shared = append(shared, part)
		}
	}
	if c.Revision > 0 {
		shared = append(shared, yaml.MapItem{Key: "definitions", Value: c.Revision}) // whose secrets effective does not show
	}
	text, err := yaml.Marshal(shared)
	if err != nil { // strings, numbers and lists of them always marshal
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Effective returns the effective configuration in the form of the file, ready for YAML or JSON. It
// contains references instead of secrets, and addresses without their credentials.
func (c *Config) Effective() yaml.MapSlice {
	tree := redactTree(c.effective())
	c.hidePaths(tree)
	return tree
}

// effective is Effective without redacted addresses. Do not show its result.
func (c *Config) effective() yaml.MapSlice { return printed(c.keys()) }
