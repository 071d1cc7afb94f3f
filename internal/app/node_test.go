package app_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const nodeFile = `
targets:
  nowhere: { kind: noop }
sources:
  hooks:
    provider: standard-webhooks
    secrets: [env:HOOKS]
    routes: [{ name: plain, target: nowhere }]
`

// A worker that could not open what another process seals says so before an effect
// meets it: it is not ready, and names the key and the process.
func TestAWorkerWithoutAKeyInUseIsNotReady(t *testing.T) {
	t.Parallel()
	const one, two = "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
	for name, c := range map[string]struct {
		other     string
		role      string
		ready     bool
		complaint string
	}{
		"SameKeys":          {other: one + " active", role: "work", ready: true},
		"AnotherOneKnown":   {other: one + " active\n" + two, role: "work", ready: true},
		"AnotherOneActive":  {other: one + "\n" + two + " active", role: "work", complaint: "node elsewhere (version 9) seals with key 2, which is not in this keyring"},
		"AnotherOfTheSame":  {other: strings.Replace(two, "2", "1", 1) + " active", role: "work", complaint: "key 1 of this keyring is not key 1 of node elsewhere"},
		"OnlyTakesDelivery": {other: one + "\n" + two + " active", role: "receive", ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
			keys, err := seal.New(func() ([]byte, error) { return []byte(c.other), nil }, nil)
			if err != nil {
				t.Fatal(err)
			}
			other, err := node.New(node.Config{Pool: pool, Name: "elsewhere", Version: "9", Keyring: keys})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			cat := catalogtest.Load(t)
			cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(nodeFile), Environ: []string{
				"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
				"HOOKS=whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "ONCEGATE_KEYRING=" + one + " active",
			}})
			if err != nil {
				t.Fatal(err)
			}
			a, err := app.New(t.Context(), app.Config{
				Settings: cfg, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Receive: c.role == "receive", Work: c.role == "work", Version: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			stopped := false
			stop := func() {
				if !stopped {
					stopped = true
					if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				}
			}
			t.Cleanup(stop)
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.AdminAddr().String()+"/readyz", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || (response.StatusCode == http.StatusOK) != c.ready || !strings.Contains(string(body), c.complaint) {
				t.Errorf("/readyz is %d %s, %v, want ready %t with %q", response.StatusCode, body, err, c.ready, c.complaint)
			}
			nodes, err := node.List(t.Context(), pool)
			if err != nil || len(nodes) != 2 {
				t.Errorf("the nodes are %+v, %v", nodes, err)
			}
			// What it carries out is handed to it, and nothing to one that takes deliveries only.
			for _, n := range nodes {
				if want := c.role == "work" && n.Name != "elsewhere"; (len(n.Routes) == 1) != want {
					t.Errorf("node %s works the routes %v", n.Name, n.Routes)
				}
			}
			stop()
			if nodes, err = node.List(t.Context(), pool); err != nil || len(nodes) != 1 {
				t.Errorf("after a clean stop the nodes are %+v, %v", nodes, err)
			}
		})
	}
}
