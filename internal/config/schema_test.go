package config_test

import (
	"os"
	"strings"
	"testing"
)

// The schema accepts what Load accepts, and refuses unknown keys in every section and values that
// no setting of the key can have. Other tests show that it accepts every configuration that they
// load, and the examples of the providers' pages.
func TestSchema(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	taken := map[string]string{"overridden": overridden, "an empty file": "", "empty sections": "work:\ntargets:\n"}
	for _, file := range []string{"testdata/full.yml", "testdata/full.golden"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		taken[file] = string(content)
	}
	for name, content := range taken {
		if err := schema.Validate(asJSON(t, content)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused := sections()
	for _, content := range []string{
		"work: { lease: soon }", "work: { workers: 0 }", "work: []", "log: { level: loud }", "drain: 1y", "gate: { queue_bytes: 1TB }",
		"database: { gate_connections: 3 }", "console: { enabled: maybe }", "targets: { t: { kind: dev } }", "targets: { t: { timeout: 1s } }",
		"tenants: { t: { new_keys: 5 } }", "sources: { s: { secrets: [whsec_written_out] } }", "sources: { s: { on_conflict: refuse } }",
	} {
		refused[content] = content
	}
	for name, content := range refused {
		if err := schema.Validate(asJSON(t, content)); err == nil {
			t.Errorf("%s: the schema accepts %s", name, content)
		} else if strings.Contains(content, "nonsense") && !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: the schema refuses something else: %v", name, err)
		}
	}
}
