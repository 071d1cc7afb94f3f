package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// Repeats are asked for by a window, and refused only where the source says so.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		settings config.Repeats
		problem  string
	}{
		`{ within: 10m }`:               {settings: config.Repeats{Within: 10 * time.Minute}},
		`{ within: 10m, answer: flag }`: {settings: config.Repeats{Within: 10 * time.Minute}},
		`{ within: 1d, answer: 409 }`:   {settings: config.Repeats{Within: 24 * time.Hour, Refuse: true}},
		`{ within: 2d }`:                {problem: "longer than"},
		`{ answer: 409 }`:               {problem: "needs within"},
		`{ within: 10m, answer: 429 }`:  {problem: "known are flag, 409"},
	} {
		file := `sources: { s: { provider: operation, secrets: [{ env: STRIPE_SECRET, name: agent }], operation: { repeats: ` + text + ` } } }`
		c, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
		switch {
		case want.problem != "":
			if err == nil || !strings.Contains(err.Error(), want.problem) {
				t.Errorf("%s: %v, want %q", text, err, want.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case c.Sources[0].Operation.Repeats != want.settings:
			t.Errorf("%s: %+v", text, c.Sources[0].Operation.Repeats)
		}
	}
}
