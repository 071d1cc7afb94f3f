package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

const definitionFile = `
database: { url: "postgres://localhost/x" }
targets: { ledger: { kind: forward, url: "http://127.0.0.1:9/x", idempotent: true, allow: [127.0.0.0/8] } }
sources: {}
`

func loadWith(file string, all ...config.Definition) (*config.Config, error) {
	return config.Load(config.Options{
		Content: []byte(file), File: "oncegate.yml", Environ: []string{"SECRET=whsec_of_the_server"}, Catalog: new(catalog.Lazy),
		Definitions: config.Definitions{Revision: int64(len(all)), Sources: all},
	})
}

// A source of the database is read like one of the file, with its secrets in it, and none of them can be printed.
func TestADefinitionIsASource(t *testing.T) {
	t.Parallel()
	const secret = "whsec_cGxlYXNlIGRvIG5vdCBwcmludA"
	cfg, err := loadWith(definitionFile,
		config.Definition{Name: "acme", Content: []byte(`{"provider":"stripe","secrets":["` + secret + `",{"value":"` + secret + `2","until":"2030-01-01"}],"routes":[{"name":"all","target":"ledger"}]}`)},
		config.Definition{Name: "shop", Disabled: true, Content: []byte("provider: github\nsecrets: [" + secret + "]")})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Sources) != 2 || !cfg.Sources[0].Stored || cfg.Sources[0].Disabled || !cfg.Sources[1].Disabled {
		t.Fatalf("got %+v", cfg.Sources)
	}
	keys := cfg.Sources[0].Keys()
	if len(keys) != 2 || string(keys[0].Value) != secret || keys[0].Name != "stored:1" || keys[1].NotAfter.IsZero() {
		t.Errorf("the secrets are %d, named %q", len(keys), keys[0].Name)
	}
	text, err := yaml.Marshal(cfg.Effective())
	if err != nil || strings.Contains(string(text), secret) || !strings.Contains(string(text), "stored: \"1\"") {
		t.Errorf("printed as %s (%v)", text, err)
	}
}

// A definition reaches no file, no variable and no network of a server, and says what is wrong without its content.
func TestADefinitionReachesNothing(t *testing.T) {
	t.Parallel()
	const secret = "whsec_cGxlYXNlIGRvIG5vdCBwcmludA"
	for want, content := range map[string]string{
		"sources.a.secrets[0]: a source of the database cannot refer":          `{"provider":"stripe","secrets":["env:SECRET"]}`,
		"sources.a.secrets[0]: unknown key \"file\"":                           `{"provider":"stripe","secrets":[{"file":"/etc/passwd"}]}`,
		"sources.a.external_url: a source of the database cannot refer":        `{"provider":"stripe","secrets":["` + secret + `"],"external_url":"env:SECRET"}`,
		"sources.a.previous_names: a source of the database cannot be renamed": `{"provider":"stripe","secrets":["` + secret + `"],"previous_names":["b"]}`,
		"sources.a.routes.r.target: unknown target":                            `{"provider":"stripe","secrets":["` + secret + `"],"routes":[{"name":"r","target":"none"}]}`,
		"source a of the database: not YAML":                                   `{"provider":"stripe","secrets":["` + secret + `"]`,
		"sources.a.operations.pay.schema: a source of the database has no":     `{"provider":"operation","credentials":{"c":{"secrets":["` + secret + `"]}},"operations":{"pay":{"schema":"/etc/passwd"}}}`,
		"sources.a.reconcile.allow: only the file may allow other networks":    `{"provider":"stripe","secrets":["` + secret + `"],"reconcile":{"credential":"sk_x","allow":["127.0.0.0/8"]}}`,
		"sources.a.reconcile.credential: a source of the database cannot ref":  `{"provider":"stripe","secrets":["` + secret + `"],"reconcile":{"credential":"env:SECRET"}}`,
	} {
		_, err := loadWith(definitionFile, config.Definition{Name: "a", Content: []byte(content)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "whsec_of_the_server") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	_, err := loadWith(strings.Replace(definitionFile, "{}", "{ a: { provider: stripe, secrets: [env:SECRET] } }", 1), config.Definition{Name: "a", Content: []byte(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "source a of the database: sources.a: the configuration has another source of that name") {
		t.Errorf("two sources of one name: got %v", err)
	}
}

// Each change of a definition changes the fingerprint, so that the processes which have applied it can be told apart.
func TestADefinitionChangesTheFingerprint(t *testing.T) {
	t.Parallel()
	options := config.Options{Content: []byte(definitionFile), Catalog: new(catalog.Lazy)}
	var seen []string
	for revision := range int64(3) {
		options.Definitions.Revision = revision
		cfg, err := config.Load(options)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(seen, cfg.Fingerprint()) {
			t.Errorf("revision %d has the fingerprint of an earlier one", revision)
		}
		seen = append(seen, cfg.Fingerprint())
	}
}

// A directory has a source in each file, under the file's name, and problems name the file.
func TestADirectoryOfSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("oncegate.yml", definitionFile+"include: sources.d\n")
	write("sources.d/acme.yml", "provider: stripe\nsecrets: [env:SECRET]\nroutes: [ { name: all, target: ledger } ]\n")
	write("sources.d/shop.yml", "provider: github\nsecrets: [env:SECRET]\n")
	write("sources.d/.hidden.yml", "not a source")
	write("sources.d/README.md", "not a source")
	load := func() (*config.Config, error) {
		return config.Load(config.Options{File: filepath.Join(dir, "oncegate.yml"), Environ: []string{"SECRET=whsec_abc"}, Catalog: new(catalog.Lazy)})
	}
	cfg, err := load()
	if err != nil || len(cfg.Sources) != 2 || cfg.Sources[0].Name != "acme" || cfg.Sources[1].Name != "shop" || cfg.Sources[0].Stored {
		t.Fatalf("got %v", err)
	}
	write("sources.d/shop.yml", "provider: github\nsecret: [env:SECRET]\n")
	if _, err := load(); err == nil || !strings.Contains(err.Error(), filepath.Join("sources.d", "shop.yml")+":2:1: sources.shop: unknown key") {
		t.Errorf("got %v", err)
	}
	write("oncegate.yml", definitionFile+"include: nowhere\n")
	if _, err := load(); err == nil || !strings.Contains(err.Error(), "include: reading the directory") {
		t.Errorf("got %v", err)
	}
}
