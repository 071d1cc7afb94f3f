package config_test

import (
	"slices"
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
targets: { t: { kind: noop } }
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
