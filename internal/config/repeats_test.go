package config_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// A declared operation can have its own setting for repeats, or disable the source's.
func TestRepeatsOfAnOperation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		settings *config.Repeats
		printed  string
		problem  string
	}{
		`{}`:                        {},
		`{ repeats: off }`:          {settings: &config.Repeats{}, printed: `repeats: "off"`},
		`{ repeats: {within: 5m} }`: {settings: &config.Repeats{Within: 5 * time.Minute}, printed: "within: 5m"},
		`{ repeats: { within: 5m, answer: 409 } }`: {settings: &config.Repeats{Within: 5 * time.Minute, Refuse: true}, printed: `answer: "409"`},
		`{ repeats: { answer: 409 } }`:             {problem: "needs within"},
		`{ repeats: never }`:                       {problem: "neither off nor settings"},
	} {
		file := `sources: { s: { provider: operation, secrets: [{ env: STRIPE_SECRET, name: agent }], operation: { repeats: { within: 1h } }, operations: { charge: ` + text + ` } } }`
		c := loadOrRefuse(t, text, file, want.problem)
		if c == nil {
			continue
		}
		got := c.Sources[0].Operations[0].Repeats
		if (got == nil) != (want.settings == nil) || got != nil && *got != *want.settings {
			t.Errorf("%s: %+v", text, got)
		}
		wantPrinted(t, text, c, want.printed)
	}
}

// The detection of repeats needs a window, and repeats are refused only if the source is configured
// to.
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
		if c := loadOrRefuse(t, text, file, want.problem); c != nil && c.Sources[0].Operation.Repeats != want.settings {
			t.Errorf("%s: %+v", text, c.Sources[0].Operation.Repeats)
		}
	}
}
