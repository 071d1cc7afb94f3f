// Package deploy_test holds the files of this directory against what Oncegate does: its defaults, its variables and the limits of
// the catalogue. ./scripts/proxies runs the proxies themselves.
package deploy_test

import (
	"os"
	"regexp"
	"testing"
	"time"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// documented returns the default of a setting in the configuration reference, which is generated from the code.
func documented(t *testing.T, key string) time.Duration {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(key) + "` \\| `[A-Z_]+` \\| `([0-9a-z]+)` \\|").FindStringSubmatch(read(t, "../docs/reference/configuration.md"))
	if row == nil {
		t.Fatalf("the configuration reference has no default of %s", key)
	}
	return duration(t, row[1])
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// longestAnswer is how long Oncegate may take for an answer with its defaults: the body, the commit, and the wait for the result of
// an operation with some room.
func longestAnswer(t *testing.T) time.Duration {
	t.Helper()
	return documented(t, "bodies.timeout") + documented(t, "gate.deadline") + 50*time.Second
}
