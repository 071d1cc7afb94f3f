package config_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
)

// loadOrRefuse loads a file. part identifies the file in failure messages. If problem is not empty,
// loading must fail with it, and the result is nil.
func loadOrRefuse(t *testing.T, part, file, problem string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
	switch {
	case problem != "":
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", part, err, problem)
		}
		return nil
	case err != nil:
		t.Errorf("%s: %v", part, err)
		return nil
	}
	return c
}

// wantPrinted fails the test unless the effective configuration contains a text.
func wantPrinted(t *testing.T, part string, c *config.Config, want string) {
	t.Helper()
	if printed, err := yaml.Marshal(c.Effective()); err != nil || !strings.Contains(string(printed), want) {
		t.Errorf("%s is printed as\n%s, %v", part, printed, err)
	}
}
