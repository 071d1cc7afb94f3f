package doctor

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// dialTimeout bounds the connection to one target, with its TLS handshake or its greeting.
const dialTimeout = 5 * time.Second

// expiresSoon is how long a certificate must be valid at least. Most are renewed 30 days before their end.
const expiresSoon = 14 * 24 * time.Hour

// endpoint is an address that a process connects to.
type endpoint struct {
	subject string
	address string // a URL with the scheme http, https, smtp or smtps
	allow   []netip.Prefix
}

// targets connects to every target, asks every broker about its stream or topic, and has the server prepare every statement. It sends no request.
func targets(ctx context.Context, cfg *Config) ([]Finding, error) {
	var found []Finding
	var all []endpoint
	var errs []error
	for _, t := range cfg.Settings.Targets {
		switch t.Kind {
		case config.KindForward:
			all = append(all, endpoint{t.Name, t.URL, t.Allow})
			if t.Probe != nil {
				all = append(all, endpoint{t.Name + " (probe)", t.Probe.URL, t.Allow})
			}
			if t.DryRun != nil {
				all = append(all, endpoint{t.Name + " (dry run)", t.DryRun.URL, t.Allow})
			}
		case config.KindMail:
			all = append(all, endpoint{t.Name, t.SMTP, t.Allow})
		case config.KindSQL:
			broken, err := prepares(ctx, cfg, t)
			found, errs = append(found, broken...), append(errs, err)
		case config.KindPublish: // see targetBrokers
		case config.KindSuppress, config.KindNoop, config.KindDev, config.KindHandler: // inside Oncegate, or this process
		}
	}
	for _, s := range cfg.Settings.Sources {
		for _, r := range s.Routes {
			if r.Fetch != nil && !strings.HasPrefix(r.Fetch.URL, "{") {
				all = append(all, endpoint{s.Name + "/" + r.Name + " (fetch)", r.Fetch.URL, r.Fetch.Allow})
			}
		}
	}
	found = append(found, targetBrokers(ctx, cfg.Settings, cfg.Resolver)...)
	return append(found, each(all, func(e endpoint) []Finding { return reach(ctx, cfg, e) })...), errors.Join(errs...)
}

// reach connects to an endpoint as an attempt would, and returns nil if it answers.
func reach(ctx context.Context, cfg *Config, e endpoint) []Finding {
	broken := func(text, remedy string) []Finding {
		return []Finding{{State: Fault, Subject: e.subject, Text: text, Remedy: remedy}}
	}
	literals, _, err := forward.SplitAddress(e.address)
	if err != nil {
		return broken("its address is not one", "correct its url")
	}
	at, err := url.Parse(strings.Join(literals, "x"))
	if err != nil || at.Hostname() == "" {
		return broken("its address is not one", "correct its url")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host := at.Hostname()
	guard := egress.New(egress.Config{Allow: append(egress.Named(host), e.allow...), Resolver: cfg.Resolver})
	port := cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443", "smtp": "25", "smtps": "465"}[at.Scheme])
	conn, err := guard.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		if name, ok := errors.AsType[*net.DNSError](err); ok {
			return broken(host+" does not resolve: "+name.Err, "correct the name, or the name server of this machine")
		}
		return broken("no connection to "+net.JoinHostPort(host, port)+": "+cause(err), "start the target, correct its address, or name its network in allow")
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection without one fails below
	}
	if at.Scheme == "https" || at.Scheme == "smtps" {
		secure := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			return broken("its certificate or TLS is refused: "+cause(err), "correct the target's certificate")
		}
		if end := secure.ConnectionState().PeerCertificates[0].NotAfter; end.Sub(cfg.Now()) < expiresSoon {
			return []Finding{{State: Warning, Subject: e.subject, Text: "its certificate ends at " + end.UTC().Format(time.RFC3339), Remedy: "have the certificate renewed"}}
		}
		conn = secure
	}
	if at.Scheme == "smtp" || at.Scheme == "smtps" {
		greeting, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(greeting, "220") {
			return broken("it does not greet as a mail server that takes messages does", "correct its smtp address, or ask who runs the server")
		}
	}
	return nil
}

// cause is the innermost reason of an error of the network, without addresses that the text has already.
func cause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %s", dialTimeout)
	}
	return oneLine(err)
}

// prepares has the server prepare the statement of a target, so that a missing function, table or right is found without running it.
func prepares(ctx context.Context, cfg *Config, t *config.Target) ([]Finding, error) {
	parameters := make(map[string]sql.Parameter, len(t.Parameters))
	for name := range t.Parameters {
		parameters[name] = func(*effect.Call) (any, error) { return nil, errors.New("the statement is only prepared") }
	}
	target, err := sql.New(sql.Config{Call: t.Call, Statement: t.Statement, Parameters: parameters, DeadOn: t.DeadOn})
	if err != nil {
		return nil, err
	}
	conn, err := cfg.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting a connection: %w", err)
	}
	defer conn.Release()
	_, err = conn.Conn().PgConn().Prepare(ctx, "oncegate_doctor", target.SQL(), nil)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return []Finding{{
			State: Fault, Subject: t.Name, Text: "the database refuses its statement: " + refused.Message,
			Remedy: "create what it names in the database, or grant the role of database.url the right to it",
		}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("preparing the statement of target %s: %w", t.Name, err)
	}
	return nil, conn.Conn().PgConn().Deallocate(ctx, "oncegate_doctor")
}
