package app_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// start runs a process of operations on a schema of its own, until the test ends. file is where the
// configuration is said to be, and environ what it names beside the secrets of its two callers.
func (o *operated) start(t *testing.T, file, content string, environ ...string) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	o.schema, o.pool = schema, inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(t), File: file, Content: []byte(content), Environ: append([]string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s",
		"AGENT=agent_secret", "CLERK=clerk_secret",
	}, environ...)})
	if err != nil {
		t.Fatal(err)
	}
	o.a = newApp(t, cfg)
	if err := o.a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// scrape is what a process serves to Prometheus.
func scrape(t *testing.T, a *app.App) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.AdminAddr().String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
