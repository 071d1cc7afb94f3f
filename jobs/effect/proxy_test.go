package effect_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// TestExhibitProxy sends, asks and mails in a process whose environment names a
// proxy.
func TestExhibitProxy(t *testing.T) { //nolint:paralleltest // it is run by itself
	if *exhibit == "" {
		return // nothing is on show
	}
	target := effecttest.NewTarget(t, func(conn net.Conn, _ effecttest.Request) { effecttest.Reply(conn, "200 OK", nil, "") })
	mails := effecttest.NewMailServer(t, nil, nil, false)
	// Under a name: no proxy is used for the loopback interface's own addresses.
	resolver := egresstest.NewNameServer(t, "127.0.0.1").Resolver()
	at, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.Host = net.JoinHostPort("target.example.", at.Port())
	if *exhibit == "the standard library" {
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Resolver: resolver}).DialContext}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		return
	}
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	sender, err := forward.New(forward.Config{URL: at.String(), Allow: allow, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	if got := sender.Send(t.Context(), effecttest.Call(1)); got.Outcome != effect.Done {
		t.Errorf("%+v", got)
	}
	probe, err := forward.NewProber(forward.ProberConfig{URL: at.String() + "/{key}", Allow: allow, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	if got := probe.Probe(t.Context(), effecttest.Call(1)); got.Outcome != effect.ProbeDone {
		t.Errorf("%+v", got)
	}
	_, port, _ := net.SplitHostPort(mails.Address)
	mailer, err := mail.New(mail.Config{Server: "smtp://target.example.:" + port, StartTLS: mail.StartTLSOff, Allow: allow, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	message := effecttest.Call(1)
	message.Rendered = []byte("From: shop@example.com\r\nTo: ann@example.com\r\nMessage-Id: <1@example.com>\r\n\r\nThank you\r\n")
	if got := mailer.Send(t.Context(), message); got.Outcome != effect.Done {
		t.Errorf("%+v", got)
	}
	if n := len(target.Requests()); n != 2 {
		t.Errorf("%d requests reached the target, want 2", n)
	}
}

// A proxy of the environment would see every key and body, and could reach what
// the guard refuses.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]int{"ours": 0, "the standard library": 1} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			proxy := effecttest.NewTarget(t, func(conn net.Conn, _ effecttest.Request) {
				effecttest.Reply(conn, "200 OK", http.Header{"Connection": {"close"}}, "")
			})
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestExhibitProxy$", "-exhibit="+how)
			cmd.Env = os.Environ()
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
				cmd.Env = append(cmd.Env, name+"="+proxy.URL)
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := len(proxy.Requests()); got != want {
				t.Errorf("%d requests went to the proxy, want %d", got, want)
			}
		})
	}
}
