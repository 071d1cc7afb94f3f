package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/config"
)

// The printed configuration contains no credential of any address in it, and a configuration with
// other credentials has another fingerprint.
func TestPrintedAddressesHoldNoCredentials(t *testing.T) {
	t.Parallel()
	const canary = "CANARY0123456789abcdef"
	content := func(secret string) string {
		at := func(text string) string { return strings.ReplaceAll(text, "CANARY", secret) }
		return at(`
database:
  url: "postgres://app:CANARY@db.example/oncegate?sslmode=disable&sslpassword=CANARY&options=CANARY"
  list_url: "postgres://lists:CANARY@db.example/oncegate"
providers:
  mine:
    extends: fusionauth
    title: "Mine, as in https://docs.example/?key=CANARY#CANARY"
targets:
  query: { kind: forward, idempotent: false, url: "https://a.example/hook?token=CANARY&empty=&CANARY" }
  quoted: { kind: forward, idempotent: false, url: "https://e.example/hook?token=it's<CANARY>" }
  path: { kind: forward, idempotent: false, url: "https://hooks.example/services/T000/B000/CANARY" }
  asked:
    kind: forward
    idempotent: false
    url: "https://b.example/"
    probe: { url: "https://b.example/effects?key={key}&token=CANARY" }
  mapped: { kind: forward, idempotent: false, url: "https://c.example/" }
sources:
  s:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    external_url: "https://in.example/in/s?token=CANARY"
    routes:
      - { name: a, target: query }
      - { name: b, target: path }
      - { name: c, target: asked }
      - { name: e, target: quoted }
      - { name: d, target: mapped, map: { back: '"https://user:CANARY@d.example/?t=CANARY"' } }
`)
	}
	cat := loaded(t)
	load := func(text string) *config.Config {
		cfg, err := config.Load(config.Options{File: "c.yml", Content: []byte(text), Environ: []string{"STRIPE_SECRET=whsec_stripe_value"}, Catalog: cat})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	cfg := load(content(canary))
	printed, err := yaml.Marshal(cfg.Effective())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(printed), canary) {
		t.Errorf("printed:\n%s", printed)
	}
	for _, kept := range []string{"a.example/hook?token=xxxxx&empty=", "hooks.example/services/T000/B000/xxxxx", "key={key}&token=xxxxx", "app:xxxxx@db.example/oncegate?sslmode=disable", "lists:xxxxx@db.example/oncegate"} {
		if !strings.Contains(string(printed), kept) {
			t.Errorf("%s is not printed:\n%s", kept, printed)
		}
	}
	// Test each canary separately, except those of the database, whose address may differ between
	// processes.
	text := content(canary)
	start := strings.Index(text, "providers:")
	for at := start; ; {
		next := strings.Index(text[at:], canary)
		if next < 0 {
			break
		}
		at += next
		changed := text[:at] + "other" + text[at+len("other"):]
		if got := load(changed).Fingerprint(); got == cfg.Fingerprint() {
			t.Errorf("another credential at byte %d leaves the fingerprint as it was", at)
		}
		at += len(canary)
	}
	if load(strings.Replace(text, "app:"+canary, "app:other", 1)).Fingerprint() != cfg.Fingerprint() {
		t.Error("another password of the database is another fingerprint")
	}
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"host=h password=p":                 "<secret>",
		"https://h.example/in/shop":         "https://h.example/in/shop",
		"https://u:p@h.example":             "https://xxxxx@h.example",
		"https://key@h.example/":            "https://xxxxx@h.example/",
		"https://u:p@with@h.example/":       "https://xxxxx@h.example/",
		"https://h.example/?a=1&b=&c#d":     "https://h.example/?a=xxxxx&b=&xxxxx#xxxxx",
		"https://h.example/?key={event_id}": "https://h.example/?key={event_id}",
		"postgres://u:p@h/db":               "postgres://u:xxxxx@h/db",
		"postgres://u@h/db?password=p":      "postgres://u@h/db?password=xxxxx",
		"amqp://u:p@h:5672/vhost":           "amqp://u:xxxxx@h:5672/vhost",
		"https://discord.com/api/webhooks/123456789012345678/abcdefghijklmnop_qrstuvwxyz-ABCDEFGHIJKLMNOP": "https://discord.com/api/webhooks/123456789012345678/xxxxx",
		"https://h.example/incoming-webhook-handler-v2":                                                    "https://h.example/incoming-webhook-handler-v2",
	} {
		got := config.RedactURL(text)
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if again := config.RedactURL(got); got != "<secret>" && again != got {
			t.Errorf("%s: once more gives %s", got, again)
		}
	}
}

// No problem of a configuration quotes a credential of an address.
func TestProblemsQuoteNoCredentials(t *testing.T) {
	t.Parallel()
	const canary = "CANARY0123456789abcdef"
	cat := loaded(t)
	addresses := []string{
		"https://user:" + canary + "@h.example/?t=" + canary, "https://h.example/%zz?t=" + canary, "ftp://user:" + canary + "@h.example",
		"https://h.example:port/?t=" + canary, "https://h.example/#" + canary, "smtp://user:" + canary + "@h.example:port",
	}
	for _, address := range addresses {
		for _, form := range []string{
			`targets: { a: { kind: forward, idempotent: false, url: %q } }`,
			`targets: { a: { kind: forward, idempotent: false, url: "https://a.example", probe: { url: %q } } }`,
			`targets: { a: { kind: mail, smtp: %q, from: a@b.example } }`,
			`targets: { a: { kind: forward, idempotent: false, url: "https://a.example", method: %q, timeout: %[1]q, rate: %[1]q } }`,
			`targets: { a: { kind: %q } }`,
			`sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET], external_url: %q } }`,
			`sources: { s: { provider: %q, secrets: [env:STRIPE_SECRET] } }`,
			`sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET], class: %q, max_body: %[1]q, settings: { a: %[1]q } } }`,
			`database: { url: %q, schema: %[1]q }`,
			`listen: { public: %q, admin: %[1]q }`,
			`log: { level: %q }`,
			`%q: 1`,
		} {
			_, err := config.Load(config.Options{
				File: "c.yml", Content: fmt.Appendf(nil, form, address),
				Environ: []string{"STRIPE_SECRET=whsec_stripe_value"}, Catalog: cat,
			})
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %v", fmt.Sprintf(form, address), err)
			}
		}
	}
}
