package config_test

import (
	"flag"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

var update = flag.Bool("update", false, "write the golden files")

// values contains all secrets of the tests. None may ever be printed.
var values = []string{"whsec_stripe_value", "whsec_old_value", "sign_value", "pass_value", "literal_secret_value"}

func environ() []string {
	return []string{
		"DATABASE_URL=postgres://user:pass_value@db.example/oncegate",
		"STRIPE_SECRET=whsec_stripe_value",
		"OLD_SECRET=whsec_old_value",
		"SIGN_SECRET=sign_value",
		"EMPTY_SECRET=",
		"KAFKA_URL=kafka://user:pass_value@k1.example,k2.example",
	}
}

func loaded(t *testing.T) providers.Map {
	t.Helper()
	cat := catalogtest.Load(t)
	return cat
}

// Every file testdata/conf.<mistake>.yml causes exactly the problems in its golden file, each with
// file and line.
func TestLoadReportsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/conf.*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	cat := loaded(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "conf."), ".yml"), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Load(config.Options{File: filepath.Base(file), Content: content, Environ: environ(), Catalog: cat})
			if err == nil {
				t.Fatal("the configuration was taken")
			}
			golden(t, strings.TrimSuffix(file, ".yml")+".golden", err.Error()+"\n")
			// The marks in the file are on the lines that contain a mistake.
			for i, line := range strings.Split(string(content), "\n") {
				at := filepath.Base(file) + ":" + itoa(i+1) + ":"
				if marked, told := strings.Contains(line, "# wrong"), strings.Contains(err.Error(), at); marked != told {
					t.Errorf("line %d: marked wrong %t, reported %t", i+1, marked, told)
				}
			}
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	for _, value := range values {
		if strings.Contains(got, value) {
			t.Errorf("the output holds the secret %q", value)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run go test -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s:\n--- got\n%s--- want\n%s", path, got, want)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// The complete documented configuration loads, and is printed without secrets.
func TestPrintHoldsNoSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "old")
	if err := os.WriteFile(secret, []byte("whsec_old_value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("testdata/full.yml")
	if err != nil {
		t.Fatal(err)
	}
	content = []byte(strings.ReplaceAll(string(content), "/run/secrets/old", secret))
	cfg, err := config.Load(config.Options{File: "full.yml", Content: content, Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	stripe := cfg.Sources[slices.IndexFunc(cfg.Sources, func(s *config.Source) bool { return s.Name == "stripe" })]
	keys := stripe.Keys()
	if len(keys) != 2 || string(keys[0].Value) != "whsec_stripe_value" || string(keys[1].Value) != "whsec_old_value" {
		t.Errorf("the secrets are not those of the environment and the file: %d keys", len(keys))
	}
	if want := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC); !keys[1].NotAfter.Equal(want) {
		t.Errorf("until: 2026-12-31 ends at %s, not at the end of that day, %s", keys[1].NotAfter, want)
	}
	text, err := yaml.Marshal(cfg.Effective())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/full.golden", strings.ReplaceAll(string(text), secret, "/run/secrets/old"))
}

// A link in the directory of templates cannot lead out of it, and the templates in the directory
// form the message.
func TestTemplatesStayInTheirDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"secret.txt": "canary", "mail/a.subject.txt": "Hello", "mail/b.subject.txt": "Hello {{.To}}\n", "mail/b.html": "<p>b</p>"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.txt", filepath.Join(dir, "mail/a.txt")); err != nil {
		t.Fatal(err)
	}
	load := func(template string) (*config.Config, error) {
		return config.Load(config.Options{File: filepath.Join(dir, "oncegate.yml"), Environ: environ(), Catalog: loaded(t), Content: []byte(`
database: { url: env:DATABASE_URL }
targets: { mail: { kind: mail, smtp: "smtp://a.example", from: a@b.example, templates: mail } }
sources: { stripe: { provider: stripe, secrets: [env:STRIPE_SECRET], routes: [ { name: r, target: mail, mail: { to: body.a, template: ` + template + ` } } ] } }`)})
	}
	if _, err := load("a"); err == nil || !strings.Contains(err.Error(), "escapes") || strings.Contains(err.Error(), "canary") {
		t.Errorf("a link that leads out: %v", err)
	}
	cfg, err := load("b")
	if err != nil {
		t.Fatal(err)
	}
	if m := cfg.Sources[0].Routes[0].Mail; m.Subject != "Hello {{.To}}" || m.Text != "" || m.HTML != "<p>b</p>" {
		t.Errorf("%+v", m)
	}
}

// The printed form is a valid configuration, and loading it prints the same again.
func TestPrintedConfigurationLoads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/full.golden")
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(secret, []byte("whsec_old_value"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := strings.ReplaceAll(string(text), "/run/secrets/old", secret)
	cfg, err := config.Load(config.Options{File: "full.golden", Content: []byte(again), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	printed, err := yaml.Marshal(cfg.Effective())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(string(printed), secret, "/run/secrets/old"); got != string(text) {
		t.Errorf("--- got\n%s--- want\n%s", got, text)
	}
}

func TestEnvironmentAloneMakesASource(t *testing.T) {
	t.Parallel()
	t.Run("with a forward target", func(t *testing.T) {
		t.Parallel()
		cfg, err := config.Load(config.Options{Catalog: loaded(t), Environ: []string{
			"DATABASE_URL=postgres://db.example/x", "PORT=9000",
			"ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET=whsec_stripe_value",
			"ONCEGATE_FORWARD_URL=https://app.example/hooks", "ONCEGATE_FORWARD_SIGN_SECRET=sign_value",
			"ONCEGATE_FORWARD_IDEMPOTENT=true", "ONCEGATE_FORWARD_ALLOW=10.0.0.0/8, fd00::/8",
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Sources) != 1 || cfg.Sources[0].Name != "stripe" || cfg.Listen.Public != ":9000" {
			t.Fatalf("sources %d, listening on %s", len(cfg.Sources), cfg.Listen.Public)
		}
		routes := cfg.Sources[0].Routes
		if len(routes) != 1 || routes[0].Target.URL != "https://app.example/hooks" || string(routes[0].Target.Keys()[0].Value) != "sign_value" {
			t.Errorf("routes: %d", len(routes))
		}
		want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
		if got := routes[0].Target.ForwardConfig(); !got.Idempotent || !slices.Equal(got.Allow, want) {
			t.Errorf("idempotent %t, allow %s", got.Idempotent, got.Allow)
		}
	})
	t.Run("does not assume whether the target deduplicates", func(t *testing.T) {
		t.Parallel()
		_, err := config.Load(config.Options{Catalog: loaded(t), Environ: []string{
			"DATABASE_URL=postgres://db.example/x", "ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET=whsec_stripe_value",
			"ONCEGATE_FORWARD_URL=https://app.example/hooks",
		}})
		if err == nil {
			t.Fatal("a forward target was taken that does not say whether it deduplicates")
		}
		golden(t, "testdata/idempotent.golden", err.Error()+"\n")
	})
	t.Run("reports everything that is wrong", func(t *testing.T) {
		t.Parallel()
		_, err := config.Load(config.Options{Catalog: loaded(t), Environ: []string{
			"PORT=http", "LOG_LEVEL=loud", "ONCEGATE_SOURCE_PROVIDER=strpie", "ONCEGATE_FORWARD_URL=ftp://x",
			"ONCEGATE_SOURCE_SECERT=literal_secret_value", "ONCEGATE_LEASE=soon",
		}})
		if err == nil {
			t.Fatal("it was taken")
		}
		golden(t, "testdata/environment.golden", err.Error()+"\n")
	})
	t.Run("a secret's value comes from its file twin", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte("whsec_stripe_value\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Options{Catalog: loaded(t), Environ: []string{
			"DATABASE_URL=postgres://db.example/x", "ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET_FILE=" + path,
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(cfg.Sources[0].Keys()[0].Value); got != "whsec_stripe_value" {
			t.Errorf("read %d bytes, want the file without its newline", len(got))
		}
	})
}

// asked is a catalog that records the providers that it is asked for.
type asked struct {
	providers.Catalog
	names map[string]bool
}

func (a asked) Provider(name string) *providers.Provider {
	a.names[name] = true
	return a.Catalog.Provider(name)
}

// Load asks the catalog only for the providers that a configuration names, because to parse all of
// them takes longer than all the rest.
func TestLoadAsksForFewProviders(t *testing.T) {
	t.Parallel()
	catalog := asked{loaded(t), map[string]bool{}}
	const content = `
providers: { own: { extends: slack } }
sources: { a: { provider: stripe, secrets: [env:STRIPE_SECRET] }, github: { secrets: [env:STRIPE_SECRET] }, c: { provider: own, secrets: [env:STRIPE_SECRET] } }
`
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: catalog})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(catalog.names)), " "); got != "github own slack stripe" {
		t.Errorf("it asked for %s", got)
	}
	if got := cfg.Providers.Names(); !slices.Equal(got, []string{"own"}) {
		t.Errorf("the providers of the configuration are %v", got)
	}
}
