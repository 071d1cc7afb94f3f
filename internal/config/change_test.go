package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// Changes name every key in which two configurations differ, those that need a restart among them, and no value.
func TestChanges(t *testing.T) {
	t.Parallel()
	const base = `
listen: { public: ":8080" }
targets:
  crm: { kind: forward, url: "https://crm.example/?token=abc", idempotent: true }
sources:
  shop: { provider: stripe, secrets: [{ file: SECRET }], routes: [{ name: all, target: crm }] }
`
	const address = "postgres://app:hunter2@db.example:5432/hooks?sslmode=disable"
	for name, c := range map[string]struct {
		text, url, secret string
		want              string
	}{
		"nothing":           {want: ""},
		"a token":           {text: strings.Replace(base, "abc", "xyz", 1), want: "targets.crm.url changed"},
		"a new source":      {text: base + "  more: { provider: stripe, secrets: [{ file: SECRET }], routes: [{ name: all, target: crm }] }\n", want: "sources.more added"},
		"a removed key":     {text: strings.Replace(base, `listen: { public: ":8080" }`, `drain: 3s`, 1), want: "drain changed"},
		"a list":            {text: strings.Replace(base, "name: all", "name: some", 1), want: "sources.shop.routes changed"},
		"a rotated secret":  {secret: "whsec_other", want: "file:SECRET changed"},
		"a listener":        {text: strings.Replace(base, ":8080", ":9090", 1), want: "listen.public changed (fixed)"},
		"a limit of it":     {text: strings.Replace(base, `":8080"`, `":8080", connections: 7`, 1), want: "listen.connections added (fixed)"},
		"the schema":        {text: "database: { schema: other }" + base, want: "database.schema changed (fixed)"},
		"a pool":            {text: "database: { work_connections: 9 }" + base, want: "database.work_connections changed"},
		"a password":        {url: strings.Replace(address, "hunter2", "hunter3", 1), want: "database.url changed"},
		"a parameter of it": {url: strings.Replace(address, "disable", "disable&connect_timeout=3", 1), want: "database.url changed"},
		"a user":            {url: strings.Replace(address, "app", "owner", 1), want: "database.url changed (fixed)"},
		"a host":            {url: strings.Replace(address, "db.", "db2.", 1), want: "database.url changed (fixed)"},
		"a port":            {url: strings.Replace(address, "5432", "5433", 1), want: "database.url changed (fixed)"},
		"another host too":  {url: strings.Replace(address, "5432", "5432,db2.example:5432", 1), want: "database.url changed (fixed)"},
		"a database":        {url: strings.Replace(address, "/hooks", "/others", 1), want: "database.url changed (fixed)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := filepath.Join(t.TempDir(), "secret")
			load := func(text, url, value string) *config.Config {
				if err := os.WriteFile(secret, []byte(value), 0o600); err != nil {
					t.Fatal(err)
				}
				cfg, err := config.Load(config.Options{
					File: "x.yml", Content: []byte(strings.ReplaceAll(text, "SECRET", secret)), Environ: []string{"DATABASE_URL=" + url}, Catalog: new(catalog.Lazy),
				})
				if err != nil {
					t.Fatal(err)
				}
				return cfg
			}
			or := func(value, otherwise string) string {
				if value == "" {
					return otherwise
				}
				return value
			}
			before := load(base, address, "whsec_one")
			after := load(or(c.text, base), or(c.url, address), or(c.secret, "whsec_one"))
			var got []string
			for _, change := range config.Changes(before, after) {
				text := change.String()
				if change.Fixed {
					text += " (fixed)"
				}
				got = append(got, strings.ReplaceAll(text, secret, "SECRET"))
			}
			if joined := strings.Join(got, "; "); joined != c.want {
				t.Errorf("the changes are %q, want %q", joined, c.want)
			}
			if text := fmt.Sprint(got); strings.Contains(text, "hunter") || strings.Contains(text, "xyz") || strings.Contains(text, "whsec") {
				t.Errorf("the changes contain a secret: %s", text)
			}
		})
	}
}
