package server_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
)

var reloadCount = flag.Int("reloads", 8, "how often TestReloadsUnderLoad reloads")

// Under load, no reload refuses, loses or doubles a delivery, carries an effect out twice, breaks an order, or makes the
// process not ready. Some reloads have a configuration with a mistake, and some leave effects that have begun behind.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	target := newLedger(t, nil)
	file := func(n int) string {
		return fmt.Sprintf(`
work: { workers: %d, lease: 5m }
targets:
  slow: { kind: forward, url: %q, idempotent: false, timeout: 1m, allow: [127.0.0.0/8] }
  ordered: { kind: forward, url: %q, idempotent: false, timeout: 1m, allow: [127.0.0.0/8] }
sources:
  github:
    provider: github
    secrets: [env:SECRET]
    routes:
      - { name: slow, target: slow }
      - { name: ordered, target: ordered, order: { mode: arrival, key: body.stream } }
`, 100+n, target.URL+"/slow", target.URL+"/ordered")
	}
	p := serve(t, file(0))

	var number, refused, unready, probes atomic.Int64
	loaded, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for sender := range 3 {
		running.Go(func() {
			for loaded.Err() == nil {
				n := number.Add(1)
				if status := deliverBody(t, p.public(), n, fmt.Appendf(nil, `{"action":"opened","number":%d,"stream":"s%d"}`, n, sender)); status != http.StatusOK {
					refused.Add(1)
					t.Logf("answered %d", status)
				}
			}
		})
	}
	running.Go(func() {
		for loaded.Err() == nil {
			answer, err := http.Get("http://" + p.AdminAddr().String() + "/readyz")
			if err != nil {
				t.Errorf("asking /readyz: %v", err)
				return
			}
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if probes.Add(1); answer.StatusCode != http.StatusOK {
				unready.Add(1)
				t.Logf("not ready: %s", text)
			}
		}
	})
	applied, kept := 0, 0
	for n := range *reloadCount {
		if n%4 == 3 {
			p.write(file(n) + "  broken: { provider: nobody }\n")
			if err := p.Reload(t.Context()); err == nil {
				t.Error("a configuration with a mistake was applied")
			}
			kept++
			continue
		}
		p.write(file(n + 1))
		if err := p.Reload(t.Context()); err != nil {
			t.Errorf("reload %d: %v", n, err)
		}
		applied++
	}
	p.write(file(200))
	if err := p.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	running.Wait()

	if refused.Load() > 0 {
		t.Errorf("%d of %d deliveries were refused", refused.Load(), number.Load())
	}
	if unready.Load() > 0 || probes.Load() == 0 {
		t.Errorf("%d of %d times the process was not ready", unready.Load(), probes.Load())
	}
	inboxtest.Until(t, "all effects to be done", func() bool {
		return p.count(`SELECT count(*) FROM effect WHERE state = 'done'`) >= 2*number.Load() || p.count(`SELECT count(*) FROM effect WHERE state IN ('dead', 'indeterminate')`) > 0
	})
	if events, done := p.count(`SELECT count(*) FROM inbox_event`), p.count(`SELECT count(*) FROM effect WHERE state = 'done'`); events != number.Load() || done != 2*number.Load() {
		t.Errorf("%d deliveries became %d events and %d effects that are done", number.Load(), events, done)
	}
	if n := p.count(`SELECT count(*) FROM effect WHERE attempts <> 1`); n != 0 {
		t.Errorf("%d effects needed another number of attempts than one", n)
	}
	if n, doubled := target.effects(); n != 2*number.Load() || len(doubled) > 0 {
		t.Errorf("the target saw %d effects of %d, and %v", n, 2*number.Load(), doubled)
	}
	if len(target.wrong) > 0 {
		t.Errorf("%d effects were out of order, such as %s", len(target.wrong), target.wrong[0])
	}
	if got, want := p.alone(), p.fingerprint(); got != want {
		t.Errorf("the node has the configuration %s, want the last one, %s", got, want)
	}
	if got := p.metric(`oncegate_config_reloads_total{outcome="applied"}`); got != fmt.Sprint(applied+1) {
		t.Errorf("%s reloads were counted as applied, want %d", got, applied+1)
	}
	if got := p.metric(`oncegate_config_reloads_total{outcome="invalid"}`); got != fmt.Sprint(kept) {
		t.Errorf("%s reloads were counted as invalid, want %d", got, kept)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	t.Logf("%d reloads, %d kept, %d deliveries, %d probes", applied+1, kept, number.Load(), probes.Load())
}
