package app_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// outage is a process with a buffer whose database can be made unreachable.
type outage struct {
	nats        *faulttest.Server
	proxy       *rig.Proxy
	url, schema string        // through the proxy
	pool        *pgxpool.Pool // beside the proxy
	target      *httptest.Server

	mu   sync.Mutex
	keys map[string]int // requests by their idempotency keys
	got  []string       // bodies in the order of their arrival
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{nats: faulttest.NewNATS(t, faulttest.Options{Empty: true}), keys: map[string]int{}}
	var direct string
	direct, o.schema = inboxtest.Schema(t)
	o.pool = inboxtest.Open(t, direct, o.schema, session.PoolAdmin, 4)
	var err error
	if o.proxy, o.url, err = rig.StartProxy(direct); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.proxy.Close() })
	o.target = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.keys[r.Header.Get("Idempotency-Key")]++
		o.got = append(o.got, string(body))
	}))
	t.Cleanup(o.target.Close)
	return o
}

// bufferedSources has a source in no order, one in the order of arrival and one of operations.
const bufferedSources = `
buffer: { url: $nats, replicas: 1, stream: $schema, after: 500ms, when: $when }
targets:
  t: { kind: forward, url: $target, idempotent: true }
sources:
  hub: { provider: github, secrets: [env:HUB_SECRET], routes: [{ name: r, target: t }] }
  line: { provider: github, secrets: [env:HUB_SECRET], routes: [{ name: r, target: t, order: { mode: arrival, key: body.line } }] }
  calls: { provider: operation, secrets: [{ env: CALLS_SECRET, name: engine }] }
`

func (o *outage) settings(t *testing.T, when string) *config.Config {
	t.Helper()
	content := strings.NewReplacer("$nats", o.nats.URL, "$schema", o.schema, "$target", o.target.URL, "$when", when).Replace(bufferedSources)
	cfg, err := config.Load(config.Options{Catalog: catalogtest.Load(t), File: "oncegate.yml", Content: []byte(content), Environ: []string{
		"DATABASE_URL=" + o.url, "ONCEGATE_SCHEMA=" + o.schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s",
		"HUB_SECRET=hub-secret", "CALLS_SECRET=calls-secret-of-a-test-0123456789",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (o *outage) start(t *testing.T, when string) *app.App {
	t.Helper()
	a, err := app.New(t.Context(), app.Config{Settings: o.settings(t, when), Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a
}

// deliver delivers as GitHub does, and returns the status and the body of the answer.
func (o *outage) deliver(t *testing.T, a *app.App, source, id, body string) (status int, answer string) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte("hub-secret"))
	mac.Write([]byte(body))
	return postTo(t, a, source, http.Header{
		"Content-Type": {"application/json"}, "X-Github-Delivery": {id}, "X-Github-Event": {"push"}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}, body)
}

func postTo(t *testing.T, a *app.App, source string, header http.Header, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.PublicAddr().String()+"/in/"+source, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(bytes.TrimSpace(text))
}

// readyStatus returns the answer of /readyz.
func readyStatus(t *testing.T, a *app.App) (code int, status string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.AdminAddr().String()+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var out struct{ Status string }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, out.Status
}

func (o *outage) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := o.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// settled waits until the target has got so many different effects, and reports effects that it got more than once.
func (o *outage) settled(t *testing.T, effects int) {
	t.Helper()
	inboxtest.Until(t, fmt.Sprintf("%d effects are carried out", effects), func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.keys) >= effects
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.keys) != effects || len(o.got) != effects {
		t.Errorf("%d effects in %d requests, want %d", len(o.keys), len(o.got), effects)
	}
}

// TestDeliveriesOutliveTheDatabase checks that deliveries are acknowledged while the database is unreachable, and recorded once
// when it is back: also those that came twice, and those whose content conflicts.
func TestDeliveriesOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	a := o.start(t, "unavailable")
	if status, answer := o.deliver(t, a, "hub", "before", `{"n":0}`); status != http.StatusOK || strings.Contains(answer, "buffered") {
		t.Fatalf("before: %d %s", status, answer)
	}
	o.settled(t, 1)
	o.proxy.SetReachable(false)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if status, answer := o.deliver(t, a, "hub", fmt.Sprintf("e%d", i%20), fmt.Sprintf(`{"n":%d}`, i%20)); status != http.StatusOK {
				t.Errorf("delivery %d: %d %s", i, status, answer)
			}
		})
	}
	all.Wait()
	if status, _ := o.deliver(t, a, "hub", "e1", `{"n":"changed"}`); status != http.StatusOK {
		t.Errorf("with other content: %d", status)
	}
	if status, _ := o.deliver(t, a, "line", "l1", `{"line":"a"}`); status != http.StatusServiceUnavailable {
		t.Errorf("in the order of arrival: %d", status)
	}
	if status, _ := postTo(t, a, "calls", http.Header{"Authorization": {"Bearer calls-secret-of-a-test-0123456789"}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k1"}, "Oncegate-Operation": {"o"}}, `{}`); status != http.StatusServiceUnavailable {
		t.Errorf("an operation: %d", status)
	}
	if status, _ := o.deliver(t, a, "hub", "forged", `{"n":1}x`); status != http.StatusOK {
		t.Errorf("a signed body that is no JSON: %d", status)
	}
	if code, status := readyStatus(t, a); code != http.StatusOK || status != "buffering" {
		t.Errorf("readiness: %d %s", code, status)
	}
	if s := a.BufferState(t.Context()); s.When != "unavailable" || !s.Connected || !*s.Active || s.Waiting == nil || *s.Waiting < 20 || time.Since(*s.OldestAt) > time.Minute {
		t.Errorf("while the database is away: %s", s.Words(time.Now()))
	}
	if s := app.ReadBuffer(t.Context(), &o.settings(t, "unavailable").Buffer); !s.Connected || s.Active != nil || *s.Waiting < 20 || s.OldestAt == nil {
		t.Errorf("without the process: %s", s.Words(time.Now()))
	}
	o.proxy.SetReachable(true)
	o.settled(t, 21)
	inboxtest.Until(t, "the process is ready", func() bool { _, status := readyStatus(t, a); return status == "ready" })
	inboxtest.Until(t, "the buffer is empty", func() bool { return o.count(t, `SELECT count(*)::int FROM inbox_event`) == 22 })
	if n := o.count(t, `SELECT count(*)::int FROM inbox_event WHERE admission_detail = 'buffered' AND admission = 'ok'`); n < 20 {
		t.Errorf("%d events say that they were buffered", n)
	}
	inboxtest.Until(t, "the state of the buffer says so", func() bool {
		s := a.BufferState(t.Context())
		return s.Waiting != nil && *s.Waiting == 0 && s.OldestAt == nil && !*s.Active
	})
	inboxtest.Until(t, "the conflict is kept", func() bool { return o.count(t, `SELECT count(*)::int FROM conflict`) == 1 })
	if status, answer := o.deliver(t, a, "hub", "e1", `{"n":1}`); status != http.StatusOK || strings.Contains(answer, "buffered") {
		t.Errorf("afterwards: %d %s", status, answer)
	}
	o.settled(t, 21)
}

// TestArrivalThroughTheBuffer checks that a source in the order of arrival keeps it if every delivery goes through the buffer.
func TestArrivalThroughTheBuffer(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	a := o.start(t, "always")
	var want []string
	send := func(from, to int) {
		for i := from; i < to; i++ {
			body := fmt.Sprintf(`{"line":"a","n":%d}`, i)
			want = append(want, body)
			if status, answer := o.deliver(t, a, "line", fmt.Sprintf("l%d", i), body); status != http.StatusOK {
				t.Errorf("delivery %d: %d %s", i, status, answer)
			}
		}
	}
	send(0, 20)
	o.proxy.SetReachable(false)
	send(20, 40)
	o.proxy.SetReachable(true)
	send(40, 60)
	o.settled(t, 60)
	o.mu.Lock()
	defer o.mu.Unlock()
	if got := strings.Join(o.got, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("order:\n%s", got)
	}
}

// TestBothAway checks that nothing is acknowledged while the database and the buffer are away.
func TestBothAway(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	a := o.start(t, "unavailable")
	o.proxy.SetReachable(false)
	o.nats.NATS.Shutdown()
	if status, _ := o.deliver(t, a, "hub", "lost", `{}`); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
	if code, status := readyStatus(t, a); code != http.StatusServiceUnavailable {
		t.Errorf("readiness: %d %s", code, status)
	}
	if s := a.BufferState(t.Context()); s.Connected || !*s.Active {
		t.Errorf("the state of the buffer: %s", s.Words(time.Now()))
	}
	if s := app.ReadBuffer(t.Context(), &o.settings(t, "unavailable").Buffer); s.Connected || s.Waiting != nil {
		t.Errorf("without the process: %s", s.Words(time.Now()))
	}
	o.proxy.SetReachable(true)
	inboxtest.Until(t, "deliveries are recorded", func() bool { status, _ := o.deliver(t, a, "hub", "e", `{}`); return status == http.StatusOK })
}

// TestRefusedConfigurationLeavesTheBuffer checks that an App that does not take over neither consumes the buffer nor says that its
// configuration was accepted.
func TestRefusedConfigurationLeavesTheBuffer(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	before := o.settings(t, "unavailable")
	a := o.start(t, "unavailable")
	cfg := func(settings *config.Config) app.Config {
		return app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test"}
	}
	waits := func(settings *config.Config) bool {
		w, err := app.OpenWaiting(t.Context(), cfg(settings))
		return err == nil && w.Stop(t.Context()) == nil
	}
	inboxtest.Until(t, "the note of the start", func() bool { return waits(before) })
	refused := o.settings(t, "always")
	next, err := app.Open(t.Context(), cfg(refused))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Stop(context.WithoutCancel(t.Context())) }()
	if err := next.Assemble(t.Context(), app.Parts{Listen: true, After: a}); err != nil {
		t.Fatal(err)
	}
	next.Leave() // it is never ready
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := next.Start(ctx); err == nil {
		t.Fatal("an App that is not ready took over")
	}
	if !waits(before) || waits(refused) {
		t.Error("the refused configuration counts as accepted")
	}
}
