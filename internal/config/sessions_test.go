package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// A source allows sessions only if it sets their longest duration, and only sources of operations
// can allow them.
func TestSessions(t *testing.T) {
	t.Parallel()
	load := func(source string) (*config.Config, error) {
		return config.Load(config.Options{File: "x.yml", Content: []byte("sources: { s: " + source + " }"), Environ: environ(), Catalog: loaded(t)})
	}
	for sessions, want := range map[string]time.Duration{"sessions: { longest: 8h }": 8 * time.Hour, "class: default": 0} {
		cfg, err := load("{ provider: operation, secrets: [{ env: STRIPE_SECRET, name: engine }], " + sessions + " }")
		if err != nil || cfg.Sources[0].Sessions.Longest != want {
			t.Errorf("%s: %v", sessions, err)
		}
	}
	for source, part := range map[string]string{
		"{ provider: operation, secrets: [{ env: STRIPE_SECRET, name: engine }], sessions: { } }":                "longest is missing: how long a session may last at most, such as longest: 8h",
		"{ provider: operation, secrets: [{ env: STRIPE_SECRET, name: engine }], sessions: { longest: 30s } }":   "shorter than 1m",
		"{ provider: operation, secrets: [{ env: STRIPE_SECRET, name: engine }], sessions: { longest: 30d } }":   "longer than 7d",
		"{ provider: stripe, secrets: [{ env: STRIPE_SECRET, name: engine }], sessions: { longest: 8h } }":       "sessions are for the provider operation; stripe has senders and no agents",
		"{ provider: operation, secrets: [{ env: STRIPE_SECRET, name: engine }], sessions: { longest: never } }": "longest",
	} {
		if _, err := load(source); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %s", source, err, part)
		}
	}
}
