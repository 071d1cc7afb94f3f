package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
)

func loadTarget(t *testing.T, url string, more ...string) (*config.Config, error) {
	t.Helper()
	return config.Load(config.Options{Catalog: loaded(t), File: "oncegate.yml", Environ: append(more, "DATABASE_URL=postgres://db.example/x", "S=whsec_stripe"), Content: []byte(`
targets:
  api: { kind: forward, method: PUT, idempotent: true, url: ` + url + ` }
sources:
  stripe: { provider: stripe, secrets: [env:S], routes: [{ name: a, target: api }] }
`)})
}

func TestAddressesWithExpressions(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		`"https://api.example/orders/{body.id}"`:                                            "",
		`'https://api.example/{body["a b"]}/{key_uuid}?type={event.type}'`:                  "",
		`'https://api.example/{has(body.id) ? body.id : "none"}?x={body.?x.orValue("#&")}'`: "",
		`env:API`:                            "",
		`"https://api.example/%7Bid%7D"`:     "",
		`"https://api.example/{id}"`:         "targets.api.url: {id} is no expression: column 1: undeclared reference to 'id'; write a literal brace as %7B or %7D",
		`"https://api.example/{key}"`:        "targets.api.url: {key} has slashes, which a path must not get; {key_uuid} is made of it and has none",
		`"https://{body.host}/x"`:            "targets.api.url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		`"https://api.example:{body.port}/"`: "targets.api.url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		`"https://u:{body.p}@api.example/"`:  "targets.api.url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		`"{body.url}"`:                       "targets.api.url: a value can stand in the path and in the query only, never in the scheme, user, host or port",
		`"https://api.example/{body.id"`:     "targets.api.url: a { has no }; write a literal brace as %7B or %7D",
		`env:HIDDEN`:                         "targets.api.url: value 1 in braces is no expression; write a literal brace as %7B or %7D",
	} {
		cfg, err := loadTarget(t, url, "API=https://api.example/{body.id}", "HIDDEN=https://api.example/{CANARY}")
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", url, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "CANARY")):
			t.Errorf("%s: %v\nwant %s", url, err, want)
		case want == "" && strings.Contains(url, "body") && len(cfg.Targets[0].Values) == 0:
			t.Errorf("%s has no values", url)
		}
	}
}

// A printed address shows its expressions, even if they contain special characters, and hides its
// credentials.
func TestPrintedAddressesShowTheirExpressions(t *testing.T) {
	t.Parallel()
	const written = `https://api.example/{has(body.id) ? body.id : "a&b#c"}?of={ body.of }&token=CANARY0123456789abcdef`
	cfg, err := loadTarget(t, "'"+written+"'")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(cfg.Effective())
	if err != nil {
		t.Fatal(err)
	}
	want := `https://api.example/{has(body.id) ? body.id : "a&b#c"}?of={body.of}&token=xxxxx`
	if !strings.Contains(strings.ReplaceAll(string(text), `\"`, `"`), want) || strings.Contains(string(text), "CANARY") {
		t.Errorf("printed:\n%s\nwant %s", text, want)
	}
}

func TestTheEnvironmentMayGiveAnAddressWithExpressions(t *testing.T) {
	t.Parallel()
	load := func(url string) (*config.Config, error) {
		return config.Load(config.Options{Catalog: loaded(t), Environ: []string{
			"DATABASE_URL=postgres://db.example/x", "ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET=whsec_stripe_value",
			"ONCEGATE_FORWARD_URL=" + url, "ONCEGATE_FORWARD_IDEMPOTENT=true",
		}})
	}
	cfg, err := load("https://api.example/{body.id}")
	if err != nil || len(cfg.Targets[0].Values) != 1 {
		t.Errorf("%v", err)
	}
	if _, err := load("https://api.example/{id}"); err == nil || !strings.Contains(err.Error(), "ONCEGATE_FORWARD_URL: value 1 in braces is no expression") {
		t.Errorf("%v", err)
	}
}

// Expressions for requests can use the key, but expressions that are evaluated before the key
// exists cannot.
func TestTheKeyIsThereForRequests(t *testing.T) {
	t.Parallel()
	load := func(route string) error {
		_, err := config.Load(config.Options{Catalog: loaded(t), File: "oncegate.yml", Environ: []string{"DATABASE_URL=postgres://db.example/x", "S=whsec_stripe"}, Content: []byte(`
targets:
  api: { kind: forward, idempotent: true, url: "https://api.example/" }
  db: { kind: sql, statement: "SELECT @k::text, @body::jsonb", parameters: { k: key, body: body } }
sources:
  stripe: { provider: stripe, secrets: [env:S], routes: [{ name: b, target: db }, { name: a, target: api, ` + route + ` }] }
`)})
		return err
	}
	if err := load("map: { MessageDeduplicationId: key, idempotency_key: key_uuid }"); err != nil {
		t.Error(err)
	}
	for _, route := range []string{`when: 'key != ""'`, `key: [key]`, `order: { mode: latest, key: key, number: body.created }`} {
		if err := load(route); err == nil || !strings.Contains(err.Error(), "undeclared reference to 'key'") {
			t.Errorf("%s: %v", route, err)
		}
	}
}

// What people see of an address that a reference gives is its origin, because its path may be the secret.
func TestAnAddressByReferenceIsShownWithoutItsPath(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"env:SLACK":                              "https://hooks.slack.example/...",
		"env:BARE":                               "https://bare.example:8443",
		"env:VALUES":                             "https://values.example/...",
		"https://plain.example/orders/{body.id}": "https://plain.example/orders/{body.id}",
	} {
		cfg, err := config.Load(config.Options{Catalog: loaded(t), File: "oncegate.yml", Environ: []string{
			"DATABASE_URL=postgres://db.example/x", "S=whsec_stripe", "SLACK=https://hooks.slack.example/services/t0/b0/canary", "BARE=https://bare.example:8443/",
			"VALUES=https://values.example/canary/{body.id}?k=canary",
		}, Content: []byte(`
targets: { t: { kind: forward, idempotent: true, url: "` + written + `" } }
sources: { s: { provider: stripe, secrets: [env:S], routes: [{ name: r, types: ["*"], target: t }] } }
`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Targets[0].ShownURL(); got != want {
			t.Errorf("%s is shown as %s, want %s", written, got, want)
		}
		if printed := cfg.Effective(); strings.Contains(fmt.Sprint(printed), "canary") {
			t.Errorf("%s is printed as %v", written, printed)
		}
	}
	cfg, err := config.Load(config.Options{Catalog: loaded(t), Environ: []string{
		"DATABASE_URL=postgres://db.example/x", "ONCEGATE_SOURCE_PROVIDER=stripe", "ONCEGATE_SOURCE_SECRET=whsec_stripe_value",
		"ONCEGATE_FORWARD_URL=https://hooks.slack.example/services/canary", "ONCEGATE_FORWARD_IDEMPOTENT=true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Targets[0].ShownURL(); got != "https://hooks.slack.example/..." {
		t.Errorf("the address of ONCEGATE_FORWARD_URL is shown as %s", got)
	}
}
