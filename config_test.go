package oncegate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
)

// Mistakes in a Config are reported as in the file, all at once, and before the database is
// contacted: there is none at this address.
func TestConfigIsCheckedAsTheFileIs(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://nobody@127.0.0.1:1/none"
	for _, c := range []struct {
		name   string
		change func(cfg *oncegate.Config)
		want   []string
	}{
		{"NoDatabase", func(cfg *oncegate.Config) { cfg.DatabaseURL = "" }, []string{"Config.DatabaseURL is empty"}},
		{"NoSource", func(cfg *oncegate.Config) { cfg.Sources = nil }, []string{"Config.Sources is empty"}},
		{"Schema", func(cfg *oncegate.Config) { cfg.Schema = "No Schema" }, []string{"database.schema", "a-z"}},
		{"Role", func(cfg *oncegate.Config) { cfg.Role = "receiver" }, []string{`Config.Role "receiver" is unknown`}},
		{"UnknownProvider", func(cfg *oncegate.Config) { cfg.Sources[0].Provider = "strippe" }, []string{`sources.stripe`, `unknown provider "strippe"`, "stripe"}},
		{"NoSecret", func(cfg *oncegate.Config) { cfg.Sources[0].Secrets = nil }, []string{"sources.stripe", "secrets are missing"}},
		{"EmptySecret", func(cfg *oncegate.Config) { cfg.Sources[0].Secrets = []oncegate.Secret{{}} }, []string{"a Secret is empty: make it by Env, File or Value"}},
		{"VariableNotSet", func(cfg *oncegate.Config) {
			cfg.Sources[0].Secrets = []oncegate.Secret{oncegate.Env("NO_SUCH_VARIABLE_IS_SET")}
		}, []string{"sources.stripe.secrets[0]", "NO_SUCH_VARIABLE_IS_SET is not set"}},
		{"NoFile", func(cfg *oncegate.Config) { cfg.Sources[0].Secrets = []oncegate.Secret{oncegate.File("/no/such/file")} }, []string{"sources.stripe.secrets[0]", "/no/such/file"}},
		{"TwoSources", func(cfg *oncegate.Config) { cfg.Sources = append(cfg.Sources, cfg.Sources[0]) }, []string{"sources.stripe: two have this name"}},
		{"NoName", func(cfg *oncegate.Config) { cfg.Sources[0].Name = "" }, []string{"sources[0]: Name is empty"}},
		{"TwoRoutes", func(cfg *oncegate.Config) {
			cfg.Sources[0].Routes = append(cfg.Sources[0].Routes, cfg.Sources[0].Routes[0])
		}, []string{"sources.stripe.routes.ledger: two have this name"}},
		{"UnknownTarget", func(cfg *oncegate.Config) { cfg.Sources[0].Routes[0].Target = "nowhere" }, []string{"sources.stripe.routes.ledger", `unknown target "nowhere"`}},
		{"Condition", func(cfg *oncegate.Config) { cfg.Sources[0].Routes[0].When = "body.total >" }, []string{"sources.stripe.routes.ledger.when"}},
		{"Order", func(cfg *oncegate.Config) { cfg.Sources[0].Routes[0].Order.Mode = "sorted" }, []string{"sources.stripe.routes.ledger.order.mode", "sorted"}},
		{"Timeout", func(cfg *oncegate.Config) { cfg.Sources[0].Routes[0].Timeout = time.Hour }, []string{"does not fit into work.lease"}},
		{"Negative", func(cfg *oncegate.Config) { cfg.Sources[0].Routes[0].Timeout = -time.Second }, []string{"sources.stripe.routes.ledger.timeout", "-1s"}},
		{"TooFine", func(cfg *oncegate.Config) { cfg.Drain = 1500 * time.Microsecond }, []string{"drain", "1.5ms"}},
		{"NotIdempotentOrNot", func(cfg *oncegate.Config) {
			cfg.Targets = []oncegate.Target{{Name: "billing", URL: "https://billing.example/hooks"}}
		}, []string{"targets.billing", "idempotent is missing"}},
		{"HandlerAndTarget", func(cfg *oncegate.Config) {
			cfg.Targets = []oncegate.Target{{Name: "ledger", URL: "https://billing.example/hooks", Idempotent: new(true)}}
		}, []string{"sources.stripe.routes.ledger", "a handler would take the name of target ledger"}},
		{"TwoKinds", func(cfg *oncegate.Config) {
			cfg.Targets = []oncegate.Target{{Name: "billing", URL: "https://billing.example/hooks", Call: "ledger.apply"}}
		}, []string{"targets.billing: URL and Call exclude each other"}},
		{"Keyring", func(cfg *oncegate.Config) { cfg.Keyring = oncegate.Value("keys") }, []string{"Keyring: must be where the keys are"}},
		{"Provider", func(cfg *oncegate.Config) { cfg.Providers = map[string]string{"acme": "verify: ["} }, []string{`Providers["acme"]: not YAML`}},
		{"Everything", func(cfg *oncegate.Config) {
			cfg.Drain, cfg.Sources[0].Routes[0].Target, cfg.Sources[0].Class = -1, "nowhere", "gold"
		}, []string{"drain", "unknown target", "unknown class"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := invoices(nowhere, "oncegate")
			c.change(&cfg)
			_, err := oncegate.Open(t.Context(), cfg)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q\nlacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q quotes the secret", err)
			}
		})
	}
}

const yml = `
database: { work_connections: 12 }
work: { workers: 40, lease: 30s }
drain: 20s
listen: { trusted_proxies: [10.0.0.0/8] }
targets:
  billing: { kind: forward, url: "https://billing.example/hooks", idempotent: true, sign: [%[1]s], retry: { attempts: 4 }, allow: [192.168.0.0/16], headers: { X-Token: %[1]s } }
  apply: { kind: sql, call: ledger.apply_event, timeout: 3s }
providers:
  acme:
    extends: standard-webhooks
    title: Acme
tenants: { north: { new_keys: 1000/m }, south: {} }
sources:
  engines:
    provider: operation
    credentials:
      planner: { secrets: [%[1]s, { file: %[2]s, until: 2027-01-01 }], tenant: south, operations: [charge], new_keys: 600/m }
    routes: [{ name: charge, target: apply }]
  stripe:
    provider: stripe
    previous_names: [payments]
    secrets: [%[1]s, { file: %[2]s, until: 2027-01-01 }]
    class: payments
    tenant: north
    rearm: off
    redact: [iban, data.object.note]
    routes:
      - { name: ledger, types: ["invoice.*"], when: "body.data.object.total > 0", retry: { attempts: 3, base: 1500ms, max: 1h, deadline: 2d } }
      - { name: forward, target: billing, previous_names: [old], map: { id: event.id, total: fetched.total },
          fetch: { url: "https://api.example/charges/{body.id}", hosts: [api.example], bearer: [%[1]s], headers: { X-Version: %[1]s }, allow: [192.168.0.0/16], timeout: 3s, max_size: 1MiB } }
      - { name: once, target: apply, key: { fields: [type, body.data.object.id], version: 2, within: 1m, keep: 30d } }
  acme:
    provider: acme
    secrets: [%[1]s]
    emit: true
    max_body: 1MiB
    routes:
      - { name: fulfil, order: { mode: contiguous, key: body.order, number: body.seq, patience: 1h, on_gap: hold, on_dead: block } }
`

// byHand returns the Config that corresponds to yml.
func byHand(url, schema, variable, file string) oncegate.Config {
	token := oncegate.Env(variable)
	return oncegate.Config{
		DatabaseURL: url, Schema: schema, Logger: slog.New(slog.DiscardHandler),
		WorkConnections: 12, Workers: 40, Lease: 30 * time.Second, Drain: 20 * time.Second,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Targets: []oncegate.Target{{
			Name: "billing", URL: "https://billing.example/hooks", Idempotent: new(true), Sign: []oncegate.Secret{token},
			Retry: oncegate.Retry{Attempts: 4}, Allow: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")},
			Headers: map[string]oncegate.Secret{"X-Token": token},
		}, {
			Name: "apply", Call: "ledger.apply_event", Timeout: 3 * time.Second,
		}},
		Providers: map[string]string{"acme": "extends: standard-webhooks\ntitle: Acme\n"},
		Tenants:   []oncegate.Tenant{{Name: "north", NewKeys: "1000/m"}, {Name: "south"}},
		Sources: []oncegate.Source{{
			Name: "engines", Provider: "operation",
			Credentials: []oncegate.Credential{{
				Name: "planner", Secrets: []oncegate.Secret{token, oncegate.File(file).Until(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC))},
				Tenant: "south", Operations: []string{"charge"}, NewKeys: "600/m",
			}},
			Routes: []oncegate.Route{{Name: "charge", Target: "apply"}},
		}, {
			Name: "stripe", PreviousNames: []string{"payments"},
			Secrets: []oncegate.Secret{token, oncegate.File(file).Until(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC))},
			Class:   "payments", Tenant: "north", Rearm: -1, Redact: []string{"iban", "data.object.note"},
			Routes: []oncegate.Route{{
				Name: "ledger", Types: []string{"invoice.*"}, When: "body.data.object.total > 0",
				Retry: oncegate.Retry{Attempts: 3, Base: 1500 * time.Millisecond, Max: time.Hour, Deadline: 48 * time.Hour},
			}, {
				Name: "forward", Target: "billing", PreviousNames: []string{"old"},
				Map: map[string]any{"id": "event.id", "total": "fetched.total"},
				Fetch: oncegate.Fetch{
					URL: "https://api.example/charges/{body.id}", Hosts: []string{"api.example"}, Bearer: token, Headers: map[string]oncegate.Secret{"X-Version": token},
					Allow: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}, Timeout: 3 * time.Second, MaxSize: 1 << 20,
				},
			}, {
				Name: "once", Target: "apply",
				Key: oncegate.Key{Fields: []string{"type", "body.data.object.id"}, Version: 2, Within: time.Minute, Keep: 30 * 24 * time.Hour},
			}},
		}, {
			Name: "acme", Secrets: []oncegate.Secret{token}, Emit: true, MaxBody: 1 << 20,
			Routes: []oncegate.Route{{
				Name: "fulfil",
				Order: oncegate.Order{
					Mode: "contiguous", Key: "body.order", Number: "body.seq", Patience: time.Hour, OnGap: "hold", OnDead: "block",
				},
			}},
		}},
	}
}

// A Config in Go and the equivalent file are one configuration: processes started with either have
// the same fingerprint.
func TestConfigInGoIsTheFile(t *testing.T) {
	const variable = "WEBHOOK_SECRET_OF_A_TEST"
	t.Setenv(variable, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	url, schema := inboxtest.Schema(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("ONCEGATE_SCHEMA", schema)
	dir := t.TempDir()
	secretFile, file := filepath.Join(dir, "secret"), filepath.Join(dir, "oncegate.yml")
	for name, content := range map[string]string{secretFile: "whsec_old\n", file: fmt.Sprintf(yml, "env:"+variable, secretFile)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := oncegate.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Logger = slog.New(slog.DiscardHandler)
	configurations := map[string]string{}
	for name, cfg := range map[string]oncegate.Config{"loaded": loaded, "by hand": byHand(url, schema, variable, secretFile)} {
		w := openAs(t, cfg)
		attach(t, w.og, "ledger", book)
		attach(t, w.og, "fulfil", book)
		w.run(t)
		var configuration string
		if err := w.pool.QueryRow(t.Context(), `SELECT configuration FROM node`).Scan(&configuration); err != nil {
			t.Fatal(err)
		}
		configurations[name] = configuration
		w.halt(t)
	}
	if configurations["loaded"] != configurations["by hand"] || configurations["loaded"] == "" {
		t.Errorf("fingerprints differ: %v", configurations)
	}
	pool := inboxtest.Open(t, url, schema, "admin", 1)
	var versions int
	if err := pool.QueryRow(t.Context(), `SELECT max(version) FROM route`).Scan(&versions); err != nil {
		t.Fatal(err)
	}
	if versions != 1 {
		t.Errorf("a route got version %d by being written in another way", versions)
	}
}

func TestLoadedConfigIsNotChangedInGo(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")
	file := filepath.Join(t.TempDir(), "oncegate.yml")
	content := "sources:\n  acme:\n    provider: standard-webhooks\n    secrets: [env:WEBHOOK_SECRET_OF_A_TEST]\n    routes: [{ name: ledger }]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := oncegate.Load(file); err == nil || !strings.Contains(err.Error(), file+":4:") {
		t.Errorf("Load: %v; does not say where the secret is named", err)
	}
	t.Setenv("WEBHOOK_SECRET_OF_A_TEST", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	cfg, err := oncegate.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Sources = []oncegate.Source{{Name: "github"}}
	if _, err := oncegate.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "write the rest into the file") {
		t.Errorf("Open: %v; takes a source beside those of the file", err)
	}
}

// No way of printing a Config, or a part of it, shows a secret.
func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	const hidden = "s3cr3t"
	cfg := oncegate.Config{
		DatabaseURL: "postgres://user:" + hidden + "@db.example/app",
		Sources:     []oncegate.Source{{Name: "stripe", Secrets: []oncegate.Secret{oncegate.Value(hidden).Until(time.Now()), oncegate.Env("A_NAME")}}},
		Targets: []oncegate.Target{{
			Name: "chat", URL: "https://hooks.example/" + hidden, Sign: []oncegate.Secret{oncegate.Value(hidden)},
			Headers: map[string]oncegate.Secret{"Authorization": oncegate.Value("Bearer " + hidden)},
		}},
	}
	type service struct{ Inbox oncegate.Config }
	type private struct{ secrets []oncegate.Secret }
	for name, value := range map[string]any{
		"Config": cfg, "pointer": &cfg, "route": oncegate.Route{Fetch: oncegate.Fetch{URL: "https://api.example/?key=" + hidden, Bearer: oncegate.Value(hidden)}},
		"inside": service{cfg}, "Source": cfg.Sources[0], "Target": cfg.Targets[0], "targets": cfg.Targets,
		"Secret": cfg.Sources[0].Secrets[0], "headers": cfg.Targets[0].Headers, "unexported": private{cfg.Sources[0].Secrets},
	} {
		var shown strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&shown, verb+"\n", value)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(text)
		if text, err = yaml.Marshal(value); err != nil {
			t.Fatal(err)
		}
		shown.Write(text)
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", slog.Any("value", value))
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", slog.Any("value", value))
		shown.Write(log.Bytes())
		for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%d", []byte(hidden))} {
			if strings.Contains(shown.String(), form) {
				t.Errorf("%s shows the secret:\n%s", name, shown.String())
			}
		}
	}
	if got := fmt.Sprint(cfg.Sources[0].Secrets); got != "[<secret> A_NAME]" && got != "[<secret> env:A_NAME]" {
		t.Errorf("secrets are shown as %s", got)
	}
}
