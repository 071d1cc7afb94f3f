package failover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// leader knows which server has the leader's lock. It answers HAProxy's checks as the REST API of Patroni does: 200 for that server while it
// takes writes, and 503 for all others, also for a former primary that comes back.
type leader struct{ server atomic.Pointer[devpg.Server] }

func (l *leader) is(s *devpg.Server) { l.server.Store(s) }

// check is the handler for one server.
func (l *leader) check(s *devpg.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if l.server.Load() != s || !takesWrites(ctx, s) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

func takesWrites(ctx context.Context, s *devpg.Server) (writes bool) {
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return false
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery()").Scan(&writes) == nil && writes
}

// The sections are those of Patroni's documentation, with checks every second instead of every three.
const proxyConfiguration = `global
    maxconn 1000
defaults
    mode tcp
    timeout connect 4s
    timeout client 30m
    timeout server 30m
    timeout check 2s
listen primary
    bind %s
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fastinter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
`

// startProxy starts an HAProxy that leads to the primary. It returns the address at which it listens.
func (c *trio) startProxy(ctx context.Context, program string, servers []*devpg.Server) (string, error) {
	front, err := freeAddress()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, proxyConfiguration, front)
	for i, s := range servers {
		address, err := url.Parse(s.DSN())
		if err != nil {
			return "", fmt.Errorf("reading an address: %w", err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens at once
		if err != nil {
			return "", fmt.Errorf("listening for checks: %w", err)
		}
		server := &http.Server{Handler: c.lead.check(s), ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = server.Serve(listener) }() // it ends with Close
		c.OnEnd(server.Close)
		_, port, _ := strings.Cut(listener.Addr().String(), ":")
		fmt.Fprintf(&text, "    server pg%d %s check port %s\n", i, address.Host, port)
	}
	file := filepath.Join(c.Dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("writing HAProxy's configuration: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "-db", "-f", file) //nolint:gosec // the program that the caller names
	out, err := os.Create(filepath.Join(c.Dir, "haproxy.log"))
	if err != nil {
		return "", fmt.Errorf("starting HAProxy: %w", err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting HAProxy: %w", err)
	}
	c.OnEnd(func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it ends by the signal
		return errors.Join(err, out.Close())
	})
	through := "postgres://" + strings.SplitN(strings.TrimPrefix(c.primary.DSN(), "postgres://"), "@", 2)[0] + "@" + front + "/postgres?sslmode=disable"
	return front, rig.Poll(ctx, 100*time.Millisecond, waitLimit, "HAProxy to find the primary", func() (bool, error) {
		timed, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		conn, err := pgx.Connect(timed, through)
		if err != nil {
			return false, nil // not yet
		}
		return true, conn.Close(ctx)
	})
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens at once
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
