package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

func loadDatabases(text, database string) (*config.Config, error) {
	return config.Load(config.Options{
		File: "oncegate.yml", Content: []byte(text), Database: database, Catalog: new(catalog.Lazy),
		Environ: []string{"DATABASE_URL=postgres://a.example/main", "SECRET=0123456789abcdef"},
	})
}

const twoDatabases = `
database: { gate_connections: 7 }
databases: { eu: { url: "postgres://b.example/main", work_connections: 9 } }
spread: [eu]
tenants: { pinned: { database: default }, free: {} }
buffer: { url: "nats://n.example", stream: kept }
archive: { url: "file:///var/archive" }
sources:
  plain: { provider: github, secrets: [env:SECRET] }
  named: { provider: github, secrets: [env:SECRET], database: eu, previous_names: [former] }
  both: { provider: github, secrets: [env:SECRET], database: eu, tenant: pinned }
  pinned: { provider: github, secrets: [env:SECRET], tenant: pinned }
  free: { provider: github, secrets: [env:SECRET], tenant: free }
`

// TestPartOfADatabase checks where sources live, and that the part of a database has only its own sources and connections.
func TestPartOfADatabase(t *testing.T) {
	t.Parallel()
	whole, err := loadDatabases(twoDatabases, "")
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{"plain": "default", "named": "eu", "former": "eu", "both": "eu", "pinned": "default", "free": "eu", "nosuch": ""} {
		if got := whole.HomeOf(source); got != want {
			t.Errorf("%s lives in %q, want %q", source, got, want)
		}
	}
	for name, want := range map[string]string{
		"default": "a.example gate=7 work=16 stream=kept archive=file:///var/archive [pinned plain]",
		"eu":      "b.example gate=7 work=9 stream=kept-eu archive=file:///var/archive/eu [both free named]",
	} {
		part, err := loadDatabases(twoDatabases, name)
		if err != nil {
			t.Fatal(err)
		}
		var sources []string
		for _, s := range part.Sources {
			sources = append(sources, s.Name)
		}
		host := strings.TrimSuffix(strings.TrimPrefix(part.Database.URL, "postgres://"), "/main")
		got := fmt.Sprintf("%s gate=%d work=%d stream=%s archive=%s %v", host, part.Database.GateConnections, part.Database.WorkConnections, part.Buffer.StreamConfig().Name, part.Archive.URL, sources)
		if got != want {
			t.Errorf("the part of %s is %s, want %s", name, got, want)
		}
		if part.Fingerprint() == whole.Fingerprint() || len(part.Databases) > 0 {
			t.Errorf("the part of %s looks like the whole", name)
		}
	}
}

// TestSpreadMovesFewTenants checks that tenants are spread evenly, and that a further database gets its share and moves no tenant between the
// others.
func TestSpreadMovesFewTenants(t *testing.T) {
	t.Parallel()
	homes := func(databases ...string) []string {
		var text strings.Builder
		text.WriteString("databases:\n")
		for _, name := range databases {
			fmt.Fprintf(&text, "  %s: { url: postgres://db-%s.example/main }\n", name, name)
		}
		fmt.Fprintf(&text, "spread: [%s]\nsources:\n", strings.Join(databases, ", "))
		for n := range 300 {
			fmt.Fprintf(&text, "  s%d: { provider: github, secrets: [env:SECRET], tenant: t%d }\n", n, n)
		}
		cfg, err := loadDatabases(text.String(), "")
		if err != nil {
			t.Fatal(err)
		}
		out := make([]string, 300)
		for n := range out {
			out[n] = cfg.HomeOf(fmt.Sprintf("s%d", n))
		}
		return out
	}
	two, three := homes("a", "b"), homes("a", "b", "c")
	moved := 0
	for n, home := range three {
		switch {
		case home == "c":
			moved++
		case home != two[n]:
			t.Errorf("tenant %d moved from %s to %s", n, two[n], home)
		}
	}
	inA := len(slices.DeleteFunc(slices.Clone(two), func(home string) bool { return home != "a" }))
	if moved < 70 || moved > 130 || inA < 120 || inA > 180 {
		t.Errorf("of 300 tenants %d are in the first of two databases, and %d moved to the third", inA, moved)
	}
}

func TestDatabasesAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"databases: { default: { url: postgres://b.example/main } }\nsources: {}":                                    "configures the default database",
		"databases: { eu: { schema: x } }\nsources: {}":                                                              "needs url",
		"databases: { eu: { url: postgres://a.example/main } }\nsources: {}":                                         "it is the same database as default",
		"databases: { eu: { url: postgres://b.example/main }, us: { url: postgres://b.example/main } }\nsources: {}": "it is the same database as eu",
		"spread: [us]\nsources: {}":                        "spread: no database is named us",
		"tenants: { acme: { database: us } }\nsources: {}": "tenants.acme.database: no database is named us",
		"databases: { europe: { url: postgres://b.example/main } }\nsources: { shop: { provider: github, secrets: [env:SECRET], database: eurpe } }": "did you mean europe",
	} {
		if _, err := loadDatabases(text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := loadDatabases("sources: {}", "us"); err == nil || !strings.Contains(err.Error(), "no database is named us") {
		t.Errorf("the part of an unknown database: %v", err)
	}
}
