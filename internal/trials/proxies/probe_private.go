package proxies

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// probePrivate asks for paths of the private listener in several spellings, and for a protocol that is too old.
func (c *campaign) probePrivate(ctx context.Context) error {
	open := map[string]string{}
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/events", "/console/", "//readyz", "/in/../readyz", "/in/%2e%2e/readyz", "/in/..%2freadyz", "/IN/../metrics", "/in/push/../../metrics"} {
		if status, err := c.raw(ctx, path); err != nil || status/100 == 2 || status/100 == 3 {
			open[path] = fmt.Sprint(status, err)
		}
	}
	c.note("paths of the private listener", "map[]", fmt.Sprint(open))
	conn, err := dialer().DialContext(ctx, "tcp", "127.0.0.1:"+c.front)
	if err != nil {
		return err
	}
	defer conn.Close()
	old := tls.Client(conn, &tls.Config{RootCAs: c.roots, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) //nolint:gosec // it must be refused
	c.note("TLS 1.1", "refused", map[bool]string{true: "refused", false: "accepted"}[old.HandshakeContext(ctx) != nil])
	return ctx.Err()
}

// raw requests a path without cleaning it first. Go's client cleans paths.
func (c *campaign) raw(ctx context.Context, path string) (status int, err error) {
	plain, err := dialer().DialContext(ctx, "tcp", "127.0.0.1:"+c.front)
	if err != nil {
		return 0, err
	}
	conn := tls.Client(plain, &tls.Config{RootCAs: c.roots, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost:%s\r\nConnection: close\r\n\r\n", path, c.front); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// probeAnswers has a source paused, and looks whether senders get Oncegate's own answer.
func (c *campaign) probeAnswers(ctx context.Context) error {
	out, err := c.RunCommand(ctx, time.Minute, nil, "sources", "pause", "paused", "--reason", "the campaign", "--actor", "campaign")
	if err != nil || out.ExitCode != 0 {
		return fmt.Errorf("pausing a source: %w: %s", err, out.Stderr)
	}
	body := string(push(300))
	var got string
	err = rig.Until(ctx, 30*time.Second, "the pause to reach the receivers", func() (bool, error) {
		answers := make([]answer, 4)
		for i := range answers {
			answers[i] = c.post(ctx, "/in/paused", pushHeader(secret, "paused", []byte(body)), body)
		}
		got = statuses(answers) + " Retry-After " + answers[0].header.Get("Retry-After")
		return got == paused, nil
	})
	c.note("answers of a paused source", paused, got)
	if err != nil {
		return nil //nolint:nilerr // the note says it
	}
	return ctx.Err()
}

// paused is what four deliveries to a paused source get.
const paused = "map[503:4] Retry-After 60"

// probeDoctor has the doctor examine the proxy.
func (c *campaign) probeDoctor(ctx context.Context) error {
	out, err := c.RunCommand(ctx, 2*time.Minute, []string{"SSL_CERT_FILE=" + c.certificate}, "doctor", "--url", c.url(), "--output", "json")
	if err != nil {
		return err
	}
	var report struct {
		Data []struct{ Check, State string }
	}
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil {
		return fmt.Errorf("reading what the doctor says: %w: %s%s", err, out.Stdout, out.Stderr)
	}
	var states []string
	for _, f := range report.Data {
		if f.Check == "public" {
			states = append(states, f.State)
		}
	}
	c.note("oncegate doctor --url", "ok", strings.Join(states, ", "))
	return ctx.Err()
}
