package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/config"
)

// An effect may wait for the test as long as the test may take, because a reload on a busy machine takes longer than an attempt has by default.
const forwarding = `
work: { lease: 5m }
targets: { ledger: { kind: forward, url: %q, idempotent: false, timeout: 4m, allow: [127.0.0.0/8] } }
sources: { github: { provider: github, secrets: [env:SECRET], routes: [{ name: note, target: ledger }] } }
`

// An effect that has begun ends under the configuration before, however long it takes, and new effects begin under the
// new one. Another reload waits for it, and a request for one is told.
func TestAnEffectThatHasBegunEndsUnderTheConfigurationBefore(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	before, after := newLedger(t, gate), newLedger(t, nil)
	p := serve(t, fmt.Sprintf(forwarding, before.URL))
	token := p.token()
	if status := deliver(t, p.public(), 1); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	inboxtest.Until(t, "the effect to begin", func() bool { return before.held.Load() == 1 })
	p.write(fmt.Sprintf(forwarding, after.URL))
	status, answer := p.ask(token, `{}`)
	if status != http.StatusOK || !strings.Contains(answer, `"targets.ledger.url"`) || !strings.Contains(answer, p.fingerprint()) {
		t.Fatalf("the reload was answered %d: %s", status, answer)
	}
	if status := deliver(t, p.public(), 2); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	inboxtest.Until(t, "the second effect to be done", func() bool { return p.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 1 })
	if n, _ := after.effects(); n != 1 || before.held.Load() != 1 {
		t.Errorf("the new target got %d effects, and the one before %d, want one each", n, before.held.Load())
	}
	if status, answer := p.ask(token, `{}`); status != http.StatusConflict || !strings.Contains(answer, "reload_in_progress") {
		t.Errorf("a second reload was answered %d: %s", status, answer)
	}
	if status, answer := p.ask(token, `{"dry_run":true}`); status != http.StatusOK || !strings.Contains(answer, `"changes":[]`) {
		t.Errorf("a dry run was answered %d: %s", status, answer)
	}
	waited := make(chan error, 1)
	go func() { waited <- p.Reload(t.Context()) }()
	open()
	if err := <-waited; err != nil {
		t.Errorf("the reload that waited: %v", err)
	}
	if n := p.count(`SELECT count(*) FROM effect WHERE state = 'done' AND attempts = 1`); n != 2 {
		t.Errorf("%d effects are done with one attempt, want 2", n)
	}
	p.alone()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// A stop ends both Apps: the one that leads, and the one before, whose effect ends.
func TestAStopWaitsForTheConfigurationBefore(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	before, after := newLedger(t, gate), newLedger(t, nil)
	p := serve(t, fmt.Sprintf(forwarding, before.URL))
	deliver(t, p.public(), 1)
	inboxtest.Until(t, "the effect to begin", func() bool { return before.held.Load() == 1 })
	p.write(fmt.Sprintf(forwarding, after.URL))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.cancel()
	inboxtest.Until(t, "the public port to be closed", func() bool { return deliver(t, p.public(), 2) == 0 })
	select {
	case err := <-p.ended:
		t.Fatalf("the process ended with %v before the effect did", err)
	default:
	}
	open()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	// The second delivery may have been accepted, and carried out, before the port was closed.
	if n := p.count(`SELECT count(*) FROM effect e JOIN inbox_event v ON v.id = e.event_id WHERE v.event_id = 'delivery-1' AND e.state = 'done' AND e.attempts = 1`); n != 1 {
		t.Error("the effect that had begun is not done")
	}
	if n := p.count(`SELECT count(*) FROM node`); n != 0 {
		t.Errorf("%d rows of the process are left", n)
	}
}

const keeping = `
classes: { short: { body: %s } }
targets: { nothing: { kind: noop } }
sources: { github: { provider: github, class: short, secrets: [{ file: %q }], routes: [{ name: note, target: nothing }] } }
`

// A configuration that cannot be started changes nothing: the one before serves, and the retention in the database is
// its own. A stop ends a reload that is under way.
func TestAConfigurationThatCannotStartIsNotApplied(t *testing.T) {
	t.Parallel()
	p := serve(t, "targets: { nothing: { kind: noop } }\nsources: { github: { provider: github, secrets: [env:SECRET], routes: [{ name: note, target: nothing }] } }\n")
	path := filepath.Join(p.dir, "secret")
	p.file("secret", secret)
	p.write(fmt.Sprintf(keeping, "20d", path))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := p.alone()
	blocker, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blocker.Exec(t.Context(), `LOCK TABLE routing IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	p.write(strings.ReplaceAll(fmt.Sprintf(keeping, "5d", path), "note", "other"))
	err = p.Reload(t.Context())
	if err == nil {
		t.Fatal("a configuration was applied whose targets could not be registered")
	}
	if !regexp.MustCompile(`lock|not start within`).MatchString(err.Error()) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the reload was refused with %q", err)
	}
	if status := deliver(t, p.public(), 1); status != http.StatusOK {
		t.Errorf("a delivery was answered %d", status)
	}
	if got := p.alone(); got != was {
		t.Errorf("the process shows the configuration %s, want the one before, %s", got, was)
	}
	if n := p.count(`SELECT count(*) FROM retention_class WHERE name = 'short' AND body = interval '20 days'`); n != 1 {
		t.Error("the retention of the refused configuration is in force")
	}
	if got := p.metric(`oncegate_config_reloads_total{outcome="failed"}`) + p.metric(`oncegate_config_last_reload_successful`); got != "10" {
		t.Errorf("the metrics say %q", got)
	}
	if !strings.Contains(p.log.String(), `level=ERROR msg="the configuration was not reloaded; the one before stays in force"`) {
		t.Error("the log does not say so")
	}

	under := make(chan error, 1)
	go func() { under <- p.Reload(t.Context()) }()
	inboxtest.Until(t, "the reload to wait for the lock", func() bool {
		return p.count(`SELECT count(*) FROM pg_locks l WHERE NOT granted AND relation = 'routing'::regclass`) > 0
	})
	if err := p.stop(); err != nil {
		t.Errorf("the stop during a reload: %v", err)
	}
	if err := <-under; err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("the reload that the stop ended gave %v", err)
	}
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if n := p.count(`SELECT count(*) FROM node`); n != 0 {
		t.Errorf("%d rows of the process are left", n)
	}
}

// A rotated secret is read again, although no key of the configuration differs.
func TestAReloadReadsSecretsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("whsec_before"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, fmt.Sprintf(keeping, "20d", path))
	token := p.token()
	if status := deliver(t, p.public(), 1); status != http.StatusUnauthorized {
		t.Fatalf("a delivery with the secret to come was answered %d", status)
	}
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	status, answer := p.ask(token, `{}`)
	want, err := json.Marshal([]config.Change{{Key: "file:" + path, What: "changed"}})
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusOK || !strings.Contains(answer, string(want)) || strings.Contains(answer, "whsec") {
		t.Errorf("the reload was answered %d: %s, want %s", status, answer, want)
	}
	if status := deliver(t, p.public(), 2); status != http.StatusOK {
		t.Errorf("a delivery with the new secret was answered %d", status)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
