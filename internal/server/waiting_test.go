package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/server"
)

const buffering = `
buffer: { url: %q, replicas: 1, stream: %q, after: 500ms }
` + forwarding

// TestStartsWithoutTheDatabase checks that a process whose configuration has run before takes deliveries into the buffer, and does
// everything else when the database is back; and that a process with another configuration does not start.
func TestStartsWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	nats := faulttest.NewNATS(t, faulttest.Options{Empty: true})
	url, schema := inboxtest.Schema(t)
	proxy, through, err := rig.StartProxy(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	target := newLedger(t, nil)
	text := fmt.Sprintf(buffering, nats.URL, schema, target.URL)
	start := func(text string) *process {
		return serveOn(t, url, schema, text, app.Config{Version: "test", Wait: true}, "SECRET="+secret, "ONCEGATE_DATABASE_URL="+through)
	}
	before := start(text)
	if status := deliver(t, before.public(), 1); status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	inboxtest.Until(t, "the note of the start", func() bool {
		a, err := app.OpenWaiting(t.Context(), waitingConfig(t, before))
		return err == nil && a.Stop(t.Context()) == nil
	})
	if err := before.stop(); err != nil {
		t.Fatal(err)
	}
	proxy.SetReachable(false)
	p := start(text)
	for n := int64(2); n < 6; n++ {
		if status := deliver(t, p.public(), n); status != http.StatusOK {
			t.Errorf("answered %d", status)
		}
	}
	if err := p.Ready(t.Context()); err != nil {
		t.Errorf("the process is not ready: %v", err)
	}
	p.write(strings.Replace(text, "after: 500ms", "after: 501ms", 1))
	changed := waitingConfig(t, p)
	if _, err := server.Open(t.Context(), changed); !app.IsAway(err) {
		t.Errorf("another configuration was started: %v", err)
	}
	p.write(text)
	proxy.SetReachable(true)
	inboxtest.Until(t, "the effects of what was buffered", func() bool { return p.count(`SELECT count(*) FROM effect WHERE state = 'done'`) == 5 })
	if n, _ := target.effects(); n != 5 {
		t.Errorf("the target got %d effects", n)
	}
	if status := deliver(t, p.public(), 6); status != http.StatusOK {
		t.Errorf("afterwards: %d", status)
	}
	inboxtest.Until(t, "the delivery to be recorded", func() bool { return p.count(`SELECT count(*) FROM inbox_event`) == 6 })
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// waitingConfig returns the configuration of a process as it would start again.
func waitingConfig(t *testing.T, p *process) app.Config {
	t.Helper()
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	return app.Config{Settings: settings, Logger: slog.New(slog.DiscardHandler), Receive: true, Work: true, Version: "test", Wait: true}
}
