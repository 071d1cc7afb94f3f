package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/app"
)

// A reload gives no sender what its quota allowed already. A quota whose size has changed is full again.
func TestAReloadKeepsWhatAQuotaHasLeft(t *testing.T) {
	t.Parallel()
	const file = `
tenants: { acme: { deliveries: %s } }
targets: { nothing: { kind: noop } }
sources:
  github: { provider: github, tenant: acme, deliveries: %s, secrets: [env:SECRET], routes: [{ name: %s, target: nothing }] }
`
	p := serve(t, fmt.Sprintf(file, "9/h", "2/h", "note"))
	number := int64(0)
	send := func(want int, when string) {
		t.Helper()
		number++
		if status := deliver(t, p.public(), number); status != want {
			t.Errorf("%s, a delivery was answered %d, want %d", when, status, want)
		}
	}
	reload := func(tenant, source, route string) {
		t.Helper()
		p.write(fmt.Sprintf(file, tenant, source, route))
		if err := p.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	send(http.StatusOK, "within the quota")
	reload("9/h", "2/h", "other")
	send(http.StatusOK, "with one left")
	send(http.StatusTooManyRequests, "over the quota")
	reload("9/h", "2/h", "note")
	send(http.StatusTooManyRequests, "over the quota after a reload")
	reload("9/h", "1/h", "note")
	send(http.StatusOK, "with a new quota of the source")
	send(http.StatusTooManyRequests, "over the new quota")
	reload("3/h", "9/h", "note")
	for range 3 {
		send(http.StatusOK, "with a new quota of the tenant")
	}
	reload("3/h", "8/h", "other")
	send(http.StatusTooManyRequests, "over the quota of the tenant after a reload")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// The breaker of a target stays open across a reload that does not change the target. A target with another address is
// asked at once.
func TestAReloadKeepsABreakerOpen(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	sound := newLedger(t, nil)
	file := func(target, route string) string {
		return fmt.Sprintf(`
targets: { ledger: { kind: forward, url: %q, idempotent: true, allow: [127.0.0.0/8], breaker: { failures: 1, open: 1h }, retry: { base: 1s, max: 1s } } }
sources: { github: { provider: github, secrets: [env:SECRET], routes: [{ name: %s, target: ledger }] } }
`, target, route)
	}
	p := serve(t, file(closed.URL, "note"))
	open := func() bool { return p.metric(`oncegate_breaker_state{state="open",target="ledger"}`) == "1" }
	deliver(t, p.public(), 1)
	inboxtest.Until(t, "the breaker to open", open)
	p.write(file(closed.URL, "note") + "# the same\n")
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !open() {
		t.Error("a reload closed the breaker of a target that did not change")
	}
	// The attempt was counted by the App before, and the new one announces the open breaker with its routes.
	var shown struct {
		OpenBreakers []string `json:"open_breakers"`
		Answers      []struct{ Reason string }
		Attempts     struct{ Attempted struct{ Count int } }
	}
	token := p.token()
	inboxtest.Until(t, "the target to show how long its attempt took", func() bool {
		p.show(token, "/targets/ledger", &shown)
		return shown.Attempts.Attempted.Count > 0
	})
	if len(shown.OpenBreakers) != 1 || shown.OpenBreakers[0] != app.NodeName() || len(shown.Answers) != 1 || shown.Answers[0].Reason != string(reasons.Connect) {
		t.Errorf("the target is shown as %+v", shown)
	}
	p.write(file(sound.URL, "note"))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if open() {
		t.Error("the breaker of a target with a new address is open")
	}
	deliver(t, p.public(), 2)
	inboxtest.Until(t, "an effect at the new address", func() bool { n, _ := sound.effects(); return n > 0 })
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// An attempt that began before a reload takes its target's slot until it ends, so that a reload does not double what
// the target gets at once.
func TestAReloadKeepsTheSlotsOfATarget(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	ledger := newLedger(t, gate)
	file := strings.Replace(fmt.Sprintf(forwarding, ledger.URL), "idempotent: false,", "idempotent: false, concurrency: 1,", 1)
	p := serve(t, file)
	deliver(t, p.public(), 1)
	inboxtest.Until(t, "the effect to begin", func() bool { return ledger.held.Load() == 1 })
	p.write(file)
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, p.public(), 2)
	inboxtest.Until(t, "the second effect to wait for the slot", func() bool {
		return ledger.held.Load() > 1 || p.count(`SELECT count(*) FROM effect WHERE reason = 'target_saturated'`) == 1
	})
	if n := ledger.held.Load(); n != 1 {
		t.Errorf("the target has %d attempts at once, want 1", n)
	}
	open()
	inboxtest.Until(t, "both effects to be done", func() bool { return p.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 2 })
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
