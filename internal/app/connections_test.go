package app_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
)

// What the configuration says of bodies and connections holds on the public listener, and
// connections are never more than the limit of open files leaves.
func TestPublicListenerIsBounded(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, connections int) (*app.App, func() int, string) {
		t.Helper()
		url, schema := inboxtest.Schema(t)
		cfg := settings(t, url, schema, "http://127.0.0.1:1")
		cfg.Listen.Connections, cfg.Listen.ConnectionsPerPeer = connections, connections
		cfg.Bodies.BodyGrace = 100 * time.Millisecond
		var log bytes.Buffer
		a, err := app.New(t.Context(), app.Config{Settings: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil)), Receive: true, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		written := log.String() // nothing runs yet
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
		return a, func() int { return deliver(t, cfg, a, "evt_1") }, written
	}
	t.Run("as configured", func(t *testing.T) {
		t.Parallel()
		a, deliver, _ := start(t, 20)
		var dialer net.Dialer
		dial := func() net.Conn {
			conn, err := dialer.DialContext(t.Context(), "tcp", a.PublicAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			return conn
		}
		for range 30 {
			dial()
		}
		if status := deliver(); status != http.StatusOK {
			t.Errorf("a delivery beside empty connections: %d", status)
		}
		if text := scrape(t, a); !strings.Contains(text, "\noncegate_open_connections_limit 20\n") || strings.Contains(text, "\noncegate_shed_connections_total 0\n") {
			t.Error("the limit of 20 is not that of the listener, or nothing was shed")
		}
		slow := dial()
		_, _ = io.WriteString(slow, "POST /in/stripe HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\nx")
		answer, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a body that is slower than the least rate: %s", answer.Status)
		}
	})
	t.Run("beyond the limit of open files", func(t *testing.T) {
		t.Parallel()
		const wanted = 1 << 30
		a, deliver, log := start(t, wanted)
		if status := deliver(); status != http.StatusOK {
			t.Errorf("a delivery: %d", status)
		}
		unlimited := strings.Contains(scrape(t, a), fmt.Sprintf("\noncegate_open_connections_limit %v\n", float64(wanted)))
		if told := strings.Contains(log, "raise it (ulimit -n, LimitNOFILE=)"); told == unlimited {
			t.Errorf("as many as wanted: %t, and the log: %q", unlimited, log)
		}
	})
}
