package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/config"
)

// The source of the notifications must exist, take emitted events, belong to no tenant and have routes. The time of the digest is hours and
// minutes.
func TestNotifications(t *testing.T) {
	t.Parallel()
	load := func(section, source string) (*config.Config, error) {
		return config.Load(config.Options{File: "x.yml", Environ: environ(), Catalog: loaded(t), Content: fmt.Appendf(nil, `
targets: { nothing: { kind: noop } }
notifications: %s
sources: { operators: { provider: standard-webhooks, %s } }
`, section, source)})
	}
	const open = "emit: true, routes: [{ name: all, target: nothing }]"
	cfg, err := load(`{ source: operators, digest: "07:30", fold: 10s, settle: 1h, kinds: [dead, failing] }`, open)
	if err != nil {
		t.Fatal(err)
	}
	n := cfg.Notifications
	if at := n.DigestAt(); at == nil || *at != 7*time.Hour+30*time.Minute || n.Fold != 10*time.Second || n.Settle != time.Hour || len(n.Kinds) != 2 {
		t.Errorf("%+v", n)
	}
	if cfg, err = load("{ source: operators }", open); err != nil || cfg.Notifications.DigestAt() != nil {
		t.Errorf("%v", err)
	}
	if cfg, err = load(`{ digest: "07:30" }`, open); err != nil || !strings.Contains(strings.Join(cfg.Warnings, "\n"), "notifications: nobody is told anything") {
		t.Errorf("without a source: %v", err)
	}
	for _, c := range []struct{ section, source, part string }{
		{"{ source: operator }", open, `there is no source "operator"; did you mean operators?`},
		{"{ source: operators }", "secrets: [env:STRIPE_SECRET], routes: [{ name: all, target: nothing }]", "set sources.operators.emit to true"},
		{"{ source: operators }", "emit: true, tenant: acme, routes: [{ name: all, target: nothing }]", "belongs to tenant acme"},
		{"{ source: operators }", "emit: true", "has no routes"},
		{"{ source: operators, digest: \"7:30\" }", open, "not a time of the day"},
		{"{ source: operators, digest: \"24:00\" }", open, "not a time of the day"},
		{"{ source: operators, kinds: [deads] }", open, "kinds"},
		{"{ source: operators, fold: soon }", open, "fold"},
	} {
		if _, err := load(c.section, c.source); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s with %s: %v, want %s", c.section, c.source, err, c.part)
		}
	}
}
