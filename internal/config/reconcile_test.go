package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// How a sender is asked is checked with its provider, and each refusal says what to write instead.
func TestReconcileIsChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ provider, section, want string }{
		"no list":          {"shopify", `{ credential: env:STRIPE_SECRET }`, "shopify cannot be reconciled"},
		"no credential":    {"stripe", `{}`, "credential is missing: a reference such as env:S_API_KEY, to a restricted API key"},
		"the secret":       {"stripe", `{ credential: rk_live_secret }`, "must be a reference"},
		"http":             {"stripe", `{ credential: env:STRIPE_SECRET, base: "http://api.example" }`, "base is not https"},
		"no parameter":     {"github", `{ credential: env:STRIPE_SECRET, params: { owner: o, repo: r } }`, "params.hook is missing: the number of the webhook"},
		"unknown":          {"stripe", `{ credential: env:STRIPE_SECRET, params: { account: a } }`, "params.account is unknown; provider stripe takes none"},
		"another host":     {"chargebee", `{ credential: env:STRIPE_SECRET, params: { site: "evil.example/" } }`, "params.site is part of a host name"},
		"too long ago":     {"stripe", `{ credential: env:STRIPE_SECRET, since: 31d }`, "Stripe keeps events for 30d only"},
		"too often":        {"stripe", `{ credential: env:STRIPE_SECRET, every: 30s }`, "shorter than 1m"},
		"an operation":     {"operation", `{ credential: env:STRIPE_SECRET }`, "operation cannot be reconciled"},
		"an unknown value": {"stripe", `{ credential: env:STRIPE_SECRET, method: GET }`, `unknown key "method"`},
	} {
		file := "sources: { s: { provider: " + test.provider + ", secrets: [env:STRIPE_SECRET], reconcile: " + test.section + " } }"
		_, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "rk_live_secret") {
			t.Errorf("%s: the error contains the secret: %v", name, err)
		}
	}
	file := `sources: { s: { provider: stripe, secrets: [env:STRIPE_SECRET], reconcile: { credential: env:STRIPE_SECRET, every: 1h } } }`
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	if r := cfg.Sources[0].Reconcile; r.Since != 24*time.Hour || r.Every != time.Hour || r.Listing().Host() != "api.stripe.com" || r.Secret().Name != "env:STRIPE_SECRET" {
		t.Errorf("%+v", r)
	}
}
