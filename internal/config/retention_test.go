package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/config"
)

// The class and the provider determine how long the data of a source is kept.
func TestHorizons(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	const year = 365 * day
	for name, c := range map[string]struct {
		provider, class, classes string
		want                     prune.Horizons
		why                      string
	}{
		// Stripe resends for 30 days: https://docs.stripe.com/webhooks/process-undelivered-events
		"a documented window": {"stripe", "default", "{}",
			prune.Horizons{Body: 30 * day, Tombstone: 90 * day, Effects: 30 * day, Refusals: 30 * day, Audit: year}, "stripe resends for 30d"},
		"payments": {"stripe", "payments", "{}",
			prune.Horizons{Body: 90 * day, Tombstone: 90 * day, Effects: 90 * day, Refusals: 30 * day, Audit: year}, "stripe resends for 30d"},
		"ephemeral": {"stripe", "ephemeral", "{}",
			prune.Horizons{Body: 7 * day, Tombstone: 90 * day, Effects: 7 * day, Refusals: 7 * day, Audit: year}, "stripe resends for 30d"},
		"a class that keeps longer": {"stripe", "default", "{ default: { effects: 200d, tombstone: 210d } }",
			prune.Horizons{Body: 30 * day, Tombstone: 210 * day, Effects: 200 * day, Refusals: 30 * day, Audit: year}, "as its class says"},
		"effects for longer than tombstones": {"stripe", "default", "{ default: { effects: 200d } }",
			prune.Horizons{Body: 30 * day, Tombstone: 200 * day, Effects: 200 * day, Refusals: 30 * day, Audit: year}, "as its class says"},
		// Its only window is marked as not read, so it counts as 30 days.
		"a weak fact": {"vercel", "ephemeral", "{}",
			prune.Horizons{Body: 7 * day, Tombstone: 90 * day, Effects: 7 * day, Refusals: 7 * day, Audit: year}, "not known well; 30d is assumed"},
		"its own class": {"stripe", "brief", "{ brief: { body: 1d, effects: 2d, refusals: 3d, audit: 4d } }",
			prune.Horizons{Body: day, Tombstone: 90 * day, Effects: 2 * day, Refusals: 3 * day, Audit: 4 * day}, "stripe resends for 30d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := fmt.Sprintf("classes: %s\nsources: { s: { provider: %s, secrets: [env:STRIPE_SECRET], class: %s } }\n", c.classes, c.provider, c.class)
			cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte(content), Environ: environ(), Catalog: loaded(t)})
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Sources[0].Keep; got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if why := strings.Join(cfg.Kept(), "\n"); !strings.Contains(why, c.why) {
				t.Errorf("%q does not say %q", why, c.why)
			}
		})
	}
}
