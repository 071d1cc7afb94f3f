package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// A valid configuration that does nothing causes a warning when it is checked, not only when the
// first event arrives.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const content = `
targets:
  metadata: { kind: forward, url: "http://169.254.169.254/latest", idempotent: true }
  mapped:   { kind: forward, url: "http://[::ffff:169.254.1.2]:80/", idempotent: true, allow: [0.0.0.0/0] }
  google:   { kind: forward, url: "http://Metadata.Google.Internal./x", idempotent: true }
  local:    { kind: mail, smtp: "smtp://[fe80::1]:25", from: a@b.example }
  asked:    { kind: forward, url: "https://a.example/", idempotent: false, probe: { url: "http://168.63.129.16/{key}" } }
  private:  { kind: forward, url: "http://10.1.2.3/", idempotent: true }
  named:    { kind: forward, url: "http://billing.internal/", idempotent: true }
sources:
  ended:  { provider: stripe, secrets: [{ env: STRIPE_SECRET, until: 2026-01-31 }, { env: OLD_SECRET, until: 2025-12-31 }], routes: [{ name: a, target: named }] }
  valid:  { provider: stripe, secrets: [{ env: STRIPE_SECRET, until: 2026-01-31 }, env:OLD_SECRET], routes: [{ name: a, target: named }] }
  ending: { provider: stripe, secrets: [{ env: STRIPE_SECRET, until: 2026-02-01 }], routes: [{ name: a, target: named }] }
  mute:   { provider: stripe, secrets: [env:STRIPE_SECRET] }
`
	noon := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	cfg, err := config.Load(config.Options{
		File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: loaded(t), Now: func() time.Time { return noon },
	})
	if err != nil {
		t.Fatal(err)
	}
	const never = ", which no target may be: every attempt fails, and allow does not permit it; name another host"
	want := []string{
		"targets.asked.probe.url: 168.63.129.16 is a metadata service" + never,
		"targets.google.url: metadata.google.internal is a metadata service" + never,
		"targets.local.smtp: fe80::1 is a link-local address" + never,
		"targets.mapped.url: ::ffff:169.254.1.2 is a link-local address" + never,
		"targets.metadata.url: 169.254.169.254 is a metadata service" + never,
		"sources.ended: its last secret expired at 2026-02-01T00:00:00Z: every delivery is refused; add the current secret or move until",
		"sources.mute: it has no routes: its events are recorded, and nothing is done with them; " +
			"add a route, or set ONCEGATE_FORWARD_URL if the source comes from the environment",
	}
	if !slices.Equal(cfg.Warnings, want) {
		for _, got := range cfg.Warnings {
			t.Log(got)
		}
		t.Errorf("got the warnings above, want %d others", len(want))
	}
}

// What loads but is hardly intended is named: everybody as a trusted proxy, a secret in the file, a target that does nothing.
func TestWarningsOfWhatLoads(t *testing.T) {
	t.Parallel()
	const content = `
listen: { trusted_proxies: [10.0.0.0/8, 0.0.0.0/0, "::/0"] }
targets:
  nothing: { kind: noop }
  unused:  { kind: noop }
  open:
    kind: forward
    url: https://a.example/
    idempotent: true
    headers: { Authorization: Bearer abc, X-Api-Key: env:STRIPE_SECRET, X-Region: eu, X-Auth-Token: abc }
    probe: { url: "https://a.example/{key}", headers: { apikey: abc }, done: [200], absent: [404] }
  bus: { kind: publish, url: "amqp://guest:guest@broker.example", subject: orders }
  hidden: { kind: publish, url: env:BROKER, subject: orders }
sources:
  bridge: { from: { url: "nats://me:abc@broker.example", stream: ORDERS }, routes: [{ name: a, target: bus }] }
  shop: { provider: stripe, secrets: [env:STRIPE_SECRET], routes: [{ name: a, target: nothing }, { name: b, target: open }] }
`
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: append(environ(), "BROKER=amqp://guest:guest@broker.example"), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	const (
		anybody  = " trusts every peer: anybody can claim another address in X-Forwarded-For, and no limit per peer holds; name the networks of your proxies"
		password = ": its password is written in the file: move the address to the environment or a file, and write env:NAME or file:PATH"
		written  = ": its value is written in the file: move it to the environment or a file, and write env:NAME or file:PATH"
	)
	want := []string{
		"listen.trusted_proxies: 0.0.0.0/0" + anybody,
		"listen.trusted_proxies: ::/0" + anybody,
		"targets.open.headers.Authorization" + written,
		"targets.open.headers.X-Auth-Token" + written,
		"targets.open.probe.headers.apikey" + written,
		"targets.bus.url" + password,
		"sources.bridge.from.url" + password,
		"sources.shop.routes.a: its target nothing is of kind noop: its effects are recorded as done, and nothing happens; name another target unless you only record events",
	}
	if !slices.Equal(cfg.Warnings, want) {
		for _, got := range cfg.Warnings {
			t.Log(got)
		}
		t.Errorf("got the warnings above, want %d others", len(want))
	}
}

// A route that names an event type that its sender does not have takes nothing, so the mistake is named, with what it may have been
// meant to be. Types are not compared where the sender's are not known.
func TestWarningsOfTypes(t *testing.T) {
	t.Parallel()
	const content = `
targets: { billing: { kind: forward, url: "https://a.example/", idempotent: true } }
providers:
  listed:
    extends: hmac
    title: Acme
    identity: { candidates: [{ json: id }] }
    type: [{ json: type }]
    types: { source: "https://acme.example/types", known: [invoice.paid, invoice.payment_failed, customer.created, AUTHORISATION, "Push Hook", "chosen.*"] }
  other: { extends: listed, identity: { candidates: [{ json: id }] }, title: Other }
  open:  { extends: listed, identity: { candidates: [{ json: id }] }, type: [{ json: kind }], title: Open }
sources:
  shop:
    provider: listed
    secrets: [env:STRIPE_SECRET]
    routes:
      - { name: all, target: billing }
      - { name: right, target: billing, types: [invoice.paid, "invoice.*", "*.created", AUTHORISATION, Push*, chosen.here, "chosen.*"] }
      - { name: wrong, target: billing, types: [invoice.payed, Invoice.Paid, "invoces.*", authorization, "push hook", refund.created] }
  second: { provider: other, secrets: [env:STRIPE_SECRET], routes: [{ name: wrong, target: billing, types: [customer.create] }] }
  third:  { provider: open, secrets: [env:STRIPE_SECRET], routes: [{ name: unknown, target: billing, types: [customer.create] }] }
`
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	line := func(at, title, pattern, meant string) string {
		if meant != "" {
			meant = "did you mean " + meant + "? "
		}
		return "sources." + at + ".types: no event type of " + title + " matches " + pattern + ", so it takes no event; " + meant +
			"choose from the 6 types at https://acme.example/types, or leave it if it is newer than that list"
	}
	want := []string{
		line("second.routes.wrong", "Other", "customer.create", "customer.created"),
		line("shop.routes.wrong", "Acme", "invoice.payed", "invoice.paid"),
		line("shop.routes.wrong", "Acme", "Invoice.Paid", "invoice.paid"),
		line("shop.routes.wrong", "Acme", "invoces.*", "invoice.*"),
		line("shop.routes.wrong", "Acme", "authorization", "AUTHORISATION"),
		line("shop.routes.wrong", "Acme", "push hook", "Push Hook"),
		line("shop.routes.wrong", "Acme", "refund.created", ""),
	}
	got := slices.DeleteFunc(cfg.Warnings, func(warning string) bool { return strings.HasPrefix(warning, "providers.") })
	if !slices.Equal(got, want) {
		for _, got := range got {
			t.Log(got)
		}
		t.Errorf("got the warnings above, want %d others", len(want))
	}
	if of := cfg.WarningsOf("second"); !slices.Equal(of, want[:1]) {
		t.Errorf("of one source: %q", of)
	}
}

// A reconciliation that asks for a type that the sender does not have finds nothing, so it is named too.
func TestWarningsOfReconciledTypes(t *testing.T) {
	t.Parallel()
	const content = `
targets: { billing: { kind: forward, url: "https://a.example/", idempotent: true } }
sources:
  shop:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    reconcile: { credential: env:STRIPE_SECRET, types: [invoice.paid, invoice.payed] }
    routes: [{ name: a, target: billing }]
`
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	const want = "sources.shop.reconcile.types: no event type of Stripe matches invoice.payed, so it takes no event; did you mean invoice.paid? "
	if len(cfg.Warnings) != 1 || !strings.HasPrefix(cfg.Warnings[0], want) {
		t.Errorf("%q, want one that begins with %q", cfg.Warnings, want)
	}
}

// One port cannot be opened twice, in whatever form it is written. Port 0 is another one each time.
func TestListenersNeedTheirOwnPorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		public, admin string
		same          bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true},
		{":8081", "127.0.0.1:8081", true},
		{"127.0.0.2:8081", "0.0.0.0:8081", true},
		{"[::]:8081", "127.0.0.1:8081", true},
		{"127.0.0.2:8081", "127.0.0.1:8081", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{":8080", "127.0.0.1:8081", false},
	} {
		_, err := config.Load(config.Options{
			File: "x.yml", Catalog: loaded(t), Environ: append(environ(), "ONCEGATE_PUBLIC="+c.public, "ONCEGATE_ADMIN="+c.admin),
			Content: []byte("sources: { shop: { provider: stripe, secrets: [env:STRIPE_SECRET] } }"),
		})
		if refused := err != nil && strings.Contains(err.Error(), "listen.admin: "+c.admin+" is also listen.public"); refused != c.same || !c.same && err != nil {
			t.Errorf("%s and %s: %v", c.public, c.admin, err)
		}
	}
}

// A warning lists each key that a custom provider inherits from another sender's provider, until
// the custom provider sets the key. The title is never inherited.
func TestWarningsOfWhatIsInherited(t *testing.T) {
	t.Parallel()
	const content = `
providers:
  silent: { extends: slack, type: [{ json: kind }] }
  written:
    extends: slack
    ack: { status: 200, empty: true }
    verify: { timestamp: { past: 300s, future: 60s } }
    windows: { retry: { for: 2d, note: measured }, age: occurred_at, ack_within: 3s, floor: 6d }
sources:
  a: { provider: silent, secrets: [env:STRIPE_SECRET], routes: [{ name: a, target: t }] }
  b: { provider: written, secrets: [env:STRIPE_SECRET], routes: [{ name: a, target: t }] }
targets: { t: { kind: forward, url: "https://a.example/", idempotent: true } }
`
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"providers.silent: it inherits values from slack (ack.empty: true, verify.timestamp.past: 5m, verify.timestamp.future: 5m, windows.retry.for: 1d, " +
			"windows.age: occurred_at, windows.ack_within: 3s) that may be wrong for its own sender: write these keys, with the same values if they are right; " +
			"`oncegate providers show silent --resolved` shows where each part is from",
	}
	if !slices.Equal(cfg.Warnings, want) {
		t.Errorf("got %q", cfg.Warnings)
	}
	if title := cfg.Providers["silent"].Spec().Title; title != "silent" {
		t.Errorf("the title is %q", title)
	}
}
