package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/config"
)

// TestDurabilityOfClasses: a class has the database's durability unless it names another one.
func TestDurabilityOfClasses(t *testing.T) {
	t.Parallel()
	load := func(database, classes string) (*config.Config, error) {
		return config.Load(config.Options{
			File: "x.yml", Catalog: loaded(t), Environ: []string{"DATABASE_URL=postgres://db.example/x", "STRIPE=whsec_stripe_value"},
			Content: []byte("database: {" + database + "}\nclasses: {" + classes + "}\nsources: { stripe: { provider: stripe, class: payments, secrets: [env:STRIPE] } }\n"),
		})
	}
	for _, c := range []struct {
		database, classes string
		all               []inbox.Durability // of the classes
		payments          inbox.Durability
		need              string
	}{
		{"", "", []inbox.Durability{"server"}, "server", ""},
		{"durability: local", "", []inbox.Durability{"local"}, "local", ""},
		{"durability: quorum", "", []inbox.Durability{"quorum"}, "quorum", "database.durability"},
		{"durability: quorum", "payments: { durability: local }", []inbox.Durability{"local", "quorum"}, "local", "database.durability"},
		{"gate_connections: 8", "payments: { durability: apply }, ephemeral: { durability: local }", []inbox.Durability{"local", "server", "apply"}, "apply", "classes.payments.durability"},
	} {
		cfg, err := load(c.database, c.classes)
		if err != nil {
			t.Fatalf("%s %s: %v", c.database, c.classes, err)
		}
		if got := cfg.Durabilities(); !slices.Equal(got, c.all) {
			t.Errorf("%s %s: the durabilities are %v, want %v", c.database, c.classes, got, c.all)
		}
		if got := cfg.Durability(cfg.Sources[0]); got != c.payments {
			t.Errorf("%s %s: payments has %s, want %s", c.database, c.classes, got, c.payments)
		}
		if got := strings.Join(cfg.NeedStandby(), ", "); got != c.need {
			t.Errorf("%s %s: %q need a standby, want %q", c.database, c.classes, got, c.need)
		}
	}
	for _, c := range []struct{ database, classes, want string }{
		{"durability: strong", "", "strong"},
		{"", "payments: { durability: remote_apply }", "remote_apply"},
		{"durability: quorum, gate_connections: 5", "payments: { durability: local }", "database.gate_connections: 5 are too few for classes with 2 durabilities, whose groups are committed apart: use at least 6"},
	} {
		if _, err := load(c.database, c.classes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.database, c.classes, err, c.want)
		}
	}
}
