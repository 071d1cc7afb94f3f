package app_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reconcile"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/listing/listingtest"
)

// secretsOf are what the providers need to be configured; nothing is signed with them.
var secretsOf = map[string]string{"chargebee": "user:password"}

// reconciled is a configuration with one source for each sender, and the senders' APIs.
type reconciled struct {
	cfg  *config.Config
	apis map[string]*listingtest.API
	pool *pgxpool.Pool
}

func newReconciled(t *testing.T) *reconciled {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	r := &reconciled{apis: map[string]*listingtest.API{}, pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 2)}
	environ := []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
	}
	file := "targets: { nothing: { kind: noop } }\nsources:\n"
	for _, s := range listingtest.Senders() {
		api := &listingtest.API{}
		server := httptest.NewServer(s.Handler(api))
		t.Cleanup(server.Close)
		r.apis[s.Provider] = api
		variable := strings.ToUpper(strings.ReplaceAll(s.Provider, "-", "_"))
		environ = append(environ, variable+"_SECRET="+cmp.Or(secretsOf[s.Provider], "whsec_value"), variable+"_API_KEY="+s.Credential)
		secrets := "secrets: [env:" + variable + "_SECRET], "
		if s.Secretless {
			secrets = ""
		}
		file += fmt.Sprintf("  %s: { provider: %[1]s, %sexternal_url: \"https://a.example/in\", settings: {%s}, routes: [{ name: a, target: nothing }],\n    reconcile: { credential: env:%s_API_KEY, base: %q, params: {%s} } }\n",
			s.Provider, secrets, members(s.Settings), variable, server.URL, members(s.Params))
	}
	var err error
	if r.cfg, err = config.Load(config.Options{Catalog: catalogtest.Load(t), File: "oncegate.yml", Content: []byte(file), Environ: environ}); err != nil {
		t.Fatal(err)
	}
	return r
}

// members are the members of a mapping in YAML.
func members(m map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf(" %s: %q", name, m[name]))
	}
	return strings.Join(out, ",")
}

func (r *reconciled) run(t *testing.T, source string, change func(*app.ReconcileConfig)) (reconcile.Report, error) {
	t.Helper()
	cfg := app.ReconcileConfig{Settings: r.cfg, Logger: slog.New(slog.DiscardHandler), Source: source, Actor: "ann", Reason: "the proxy was down", Until: time.Now()}
	if change != nil {
		change(&cfg)
	}
	return app.Reconcile(t.Context(), cfg)
}

// What every sender lists becomes an event under the key of its delivery, once.
func TestReconcile(t *testing.T) {
	t.Parallel()
	r := newReconciled(t)
	a := newApp(t, r.cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	created := time.Now().Add(-10 * time.Minute).Truncate(time.Second)
	for _, s := range listingtest.Senders() {
		api := r.apis[s.Provider]
		for i := range 5 {
			api.Add(listingtest.Event{ID: fmt.Sprintf("ev_%d", i), Created: created.Add(time.Duration(i) * time.Second)})
		}
	}
	body := fmt.Sprintf(`{"id":"ev_3","object":"event","created":%d,"type":"invoice.paid","pending_webhooks":2}`, created.Unix())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.PublicAddr().String()+"/in/stripe", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", rig.StripeSignature("whsec_value", time.Now(), []byte(body)))
	response, err := client().Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	for _, s := range listingtest.Senders() {
		want := reconcile.Counts{Pages: 2, Listed: 5, Missing: 5}
		if s.Provider == "stripe" {
			want.Known, want.Late, want.Missing = 1, 1, 4
		}
		dry, err := r.run(t, s.Provider, func(cfg *app.ReconcileConfig) { cfg.DryRun = true })
		if err != nil || dry.Counts != want || !dry.Complete {
			t.Errorf("%s: the dry run %+v, %v, want %+v", s.Provider, dry, err, want)
		}
		events := want.Known + want.Missing
		if s.Provider == "github" {
			want.Redelivered, events = want.Missing, 0
		} else {
			want.Admitted = want.Missing
		}
		done, err := r.run(t, s.Provider, nil)
		if err != nil || done.Counts != want || !done.Complete {
			t.Errorf("%s: %+v, %v, want %+v", s.Provider, done, err, want)
		}
		if n := rowsOf(t, r.pool, `SELECT count(*) FROM inbox_event v JOIN source s ON s.id = v.source_id
			WHERE s.name = '`+s.Provider+`' AND v.event_id ~ '^ev_[0-4]$' AND v.admission = 'ok' AND v.type <> 'unknown'`); n != events {
			t.Errorf("%s: %d events, want %d", s.Provider, n, events)
		}
		if s.Provider == "github" {
			if again := r.apis["github"].Redelivered(); len(again) != 5 {
				t.Errorf("asked for %q again", again)
			}
			continue
		}
		if again, err := r.run(t, s.Provider, nil); err != nil || again.Missing != 0 || again.Known != 5 {
			t.Errorf("%s: a second run %+v, %v", s.Provider, again, err)
		}
	}
	if n := rowsOf(t, r.pool, `SELECT count(*) FROM conflict`); n != 0 {
		t.Errorf("%d conflicts", n)
	}
	if n := rowsOf(t, r.pool, `SELECT count(*) FROM effect f JOIN inbox_event v ON v.id = f.event_id WHERE v.admission_detail = 'reconciled'`); n != 34 {
		t.Errorf("%d effects of reconciled events, want 34", n)
	}
}

// A list has events of all types, and those that the webhook is not subscribed to are no missing deliveries.
func TestReconcileLeavesOtherTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		types, routes []string
		admitted      int
	}{
		"those of the routes":       {nil, []string{"invoice.*"}, 2},
		"the webhook's":             {[]string{"charge.*"}, []string{"*"}, 1},
		"all, because of no routes": {nil, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReconciled(t)
			source := r.cfg.Sources[slices.IndexFunc(r.cfg.Sources, func(s *config.Source) bool { return s.Name == "stripe" })]
			source.Reconcile.Types = c.types
			if source.Routes[0].Types = c.routes; c.routes == nil {
				source.Routes = nil
			}
			registered(t, r.cfg)
			created := time.Now().Add(-10 * time.Minute)
			for i, kind := range []string{"invoice.paid", "charge.failed", "invoice.voided"} {
				r.apis["stripe"].Add(listingtest.Event{ID: fmt.Sprintf("ev_%d", i), Type: kind, Created: created.Add(time.Duration(i) * time.Second)})
			}
			want := reconcile.Counts{Pages: 1, Listed: 3, Other: 3 - c.admitted, Missing: c.admitted, Admitted: c.admitted}
			if got, err := r.run(t, "stripe", nil); err != nil || got.Counts != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// An event whose key may have been pruned is not admitted: its effects may have happened.
func TestReconcileWithinTheTombstones(t *testing.T) {
	t.Parallel()
	r := newReconciled(t)
	registered(t, r.cfg)
	before := r.apis["chargebee"].Requests()
	_, err := r.run(t, "chargebee", func(cfg *app.ReconcileConfig) { cfg.Since = time.Now().AddDate(-20, 0, 0) })
	if !errors.Is(err, app.ErrConfiguration) || !strings.Contains(err.Error(), "cannot tell which older events have arrived") || r.apis["chargebee"].Requests() != before {
		t.Errorf("error %v after %d requests", err, r.apis["chargebee"].Requests()-before)
	}
}

// What a person has to correct, and what to try later, are told apart.
func TestReconcileFails(t *testing.T) {
	t.Parallel()
	r := newReconciled(t)
	registered(t, r.cfg)
	answer := func(status int) {
		r.apis["stripe"].Before = func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(status); return true }
	}
	answer(http.StatusForbidden)
	if _, err := r.run(t, "stripe", nil); !errors.Is(err, reconcile.ErrSender) || !strings.Contains(err.Error(), "env:STRIPE_API_KEY") || strings.Contains(err.Error(), listingtest.Key) {
		t.Errorf("error %v", err)
	}
	if n := rowsOf(t, r.pool, `SELECT count(*) FROM reconciliation WHERE error LIKE '%env:STRIPE_API_KEY%' AND NOT complete`); n != 1 {
		t.Error("the last run does not say why it failed")
	}
	if _, err := r.run(t, "stripe", func(cfg *app.ReconcileConfig) { cfg.Since = time.Now().AddDate(0, 0, -31) }); !errors.Is(err, app.ErrConfiguration) {
		t.Errorf("error %v", err)
	}
	if _, err := r.run(t, "nobody", nil); !errors.Is(err, app.ErrConfiguration) {
		t.Errorf("error %v", err)
	}
}
