package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/config"
)

const declaring = `
targets:
  bank: { kind: forward, idempotent: true, url: "https://bank.example/pay" }
sources:
  agents:
    provider: operation
    secrets: [{ env: STRIPE_SECRET, name: agent }]
    operation: { key: [header.Run-Id], min_key: 12 }
    operations:
      charge:
        schema: charge.json
        versions: ">=2"
        key: [body.step, { field: body.currency, default: EUR }, body.version]
        volatile: [note, items.*.at]
        compare: exact
        keep: 90d
        in_flight: wait
      notify: {}
    routes: [{ name: pay, types: [charge], target: bank }]
`

func declared(t *testing.T, schema string) *config.Config {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "charge.json"), []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{
		File: filepath.Join(directory, "x.yml"), Content: []byte("database: { url: \"postgres://h/d\" }" + declaring), Environ: environ(), Catalog: loaded(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDeclaredOperations(t *testing.T) {
	t.Parallel()
	cfg := declared(t, `{"type": "object"}`)
	s := cfg.Sources[0]
	if len(s.Operations) != 2 || s.Operation.MinKey != 12 {
		t.Fatalf("%+v", s)
	}
	charge, notify := s.Operations[0], s.Operations[1]
	if charge.Schema == nil || charge.Versions.String() != ">=2" || strings.Join(charge.Key, " ") != "body.step body.currency=EUR body.version" || !charge.Exact ||
		charge.Keep != 90*24*time.Hour || charge.InFlight != receiver.InFlightWait || charge.MinKey != 16 || charge.Compared.ByMeaning() {
		t.Errorf("%+v", charge)
	}
	if notify.Schema != nil || notify.Versions != nil || notify.Exact || notify.MinKey != 16 || notify.InFlight != receiver.InFlightConflict || !notify.Compared.ByMeaning() {
		t.Errorf("%+v", notify)
	}
	// The keys live for the longest requested time, and prune uses that time.
	if s.Keep.Tombstone != 90*24*time.Hour {
		t.Errorf("tombstones live %s", s.Keep.Tombstone)
	}
	// A changed schema changes the configuration's fingerprint.
	if cfg.Fingerprint() == declared(t, `{"type": "array"}`).Fingerprint() || cfg.Fingerprint() != declared(t, `{"type": "object"}`).Fingerprint() {
		t.Error("the fingerprint does not follow the schema")
	}
	if shown := fmt.Sprint(cfg.Effective()); !strings.Contains(shown, "schema_digest") || !strings.Contains(shown, "items.*.at") {
		t.Errorf("shown is %s", shown)
	}
}

// The fields of a route's key may have defaults too, and body.version defaults to 1.
func TestDefaultsOfEffectKeys(t *testing.T) {
	t.Parallel()
	content := strings.Replace(declaring, "target: bank }]", "target: bank, key: [body.order, { field: body.currency, default: EUR }, body.version] }]", 1)
	content = strings.Replace(content, "        schema: charge.json\n", "", 1)
	cfg, err := config.Load(config.Options{File: "x.yml", Content: []byte("database: { url: \"postgres://h/d\" }" + content), Environ: environ(), Catalog: loaded(t)})
	if err != nil {
		t.Fatal(err)
	}
	recipe := cfg.Sources[0].Routes[0].Key.Recipe
	if got := strings.Join(recipe.Texts(), ", "); got != "body.order, body.currency or EUR, body.version" || recipe.Defaults[2] != int64(1) {
		t.Errorf("%s, %v", got, recipe.Defaults)
	}
}
