package effect_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// A dead effect said attempts_exhausted and nothing else. Why an attempt failed can be
// read where no target said anything: in what the connection, the name server, the
// certificate or the database said.
func TestAFailureSaysWhy(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := closed.Addr().String()
	_ = closed.Close()
	nowhere := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("the name server is away")
	}}
	for name, c := range map[string]struct {
		cfg    forward.Config
		reason string
		says   []string
		not    []string
	}{
		"nobody listens":   {forward.Config{URL: "http://" + refusing + "/x?token=canary"}, reasons.Connect, []string{refusing, "connection refused"}, []string{"canary"}},
		"the certificate":  {forward.Config{URL: certified.URL}, reasons.TLS, []string{"certificate"}, nil},
		"no such name":     {forward.Config{URL: "http://nowhere.example/?token=canary", Resolver: nowhere}, reasons.DNS, []string{"nowhere.example"}, []string{"canary"}},
		"a private one":    {forward.Config{URL: "http://localhost.example:1", Resolver: egresstest.NewNameServer(t, "10.1.2.3").Resolver()}, reasons.Address, []string{"10.1.2.3", "allow"}, nil},
		"the metadata one": {forward.Config{URL: "http://localhost.example:1", Resolver: egresstest.NewNameServer(t, "169.254.169.254").Resolver(), Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, reasons.Address, []string{"169.254.169.254", "nothing permits"}, []string{"`allow`"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := forward.New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := f.Send(ctx, &effect.Call{Key: "k", Event: effect.Event{Body: []byte("{}")}})
			if r.Reason != c.reason {
				t.Errorf("reason %s, want %s: %s", r.Reason, c.reason, r.Cause)
			}
			for _, want := range c.says {
				if !strings.Contains(r.Cause, want) {
					t.Errorf("it says %q, want %q in it", r.Cause, want)
				}
			}
			for _, secret := range c.not {
				if strings.Contains(r.Cause, secret) {
					t.Errorf("it says %q, with %q in it", r.Cause, secret)
				}
			}
		})
	}
}

func TestTheDatabaseSaysWhy(t *testing.T) {
	t.Parallel()
	r := effect.SQLFailure(&pgconn.PgError{
		Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "23505", Message: "duplicate key value violates unique constraint \"payment_key\"",
		Detail: "Key (card)=(canary) already exists.", Hint: "canary", Where: "canary", InternalQuery: "canary", ConstraintName: "payment_key",
	})
	if r.Excerpt != `unique_violation: duplicate key value violates unique constraint "payment_key"` || r.Code != "23505" {
		t.Errorf("%+v", r)
	}
	// Of some classes the message itself quotes a value.
	for code, message := range map[string]string{
		"22P02": `invalid input syntax for type integer: "canary"`, "22007": `invalid input syntax for type date: "canary"`, "P0001": "canary",
	} {
		routine := map[string]string{"P0001": "exec_stmt_raise"}[code]
		if r := effect.SQLFailure(&pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: message, Routine: routine}); strings.Contains(r.Excerpt, "canary") || r.Excerpt == "" {
			t.Errorf("%s says %q", code, r.Excerpt)
		}
	}
	if r := effect.SQLFailure(&pgconn.PgError{Severity: "ERROR", Code: "XX999", Message: "a\x00b\xff" + strings.Repeat("x", 5000)}); len(r.Excerpt) > effect.MaxExcerpt ||
		!utf8.ValidString(r.Excerpt) || strings.ContainsRune(r.Excerpt, 0) || !strings.HasPrefix(r.Excerpt, "XX999: a") {
		t.Errorf("%q", r.Excerpt)
	}
}

// An error that ends the session names the session and not the statement, whatever its code. So do
// errors of class 42 about what a session remembers.
func TestTheEndOfASessionIsNeverFinal(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"22P02", "23505", "25006", "25P03", "28P01", "42501", "42601", "57P01", "58030", "P0001", "XX000", "38000"} {
		for _, severity := range []string{"FATAL", "PANIC"} {
			r := effect.SQLFailure(&pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code}, "38")
			if r.Outcome != effect.Retry || r.Reason != reasons.Unavailable || r.Code != code {
				t.Errorf("%s %s: %+v", severity, code, r)
			}
		}
	}
	for _, err := range []*pgconn.PgError{
		{SeverityUnlocalized: "ERROR", Code: "42P05", Message: `prepared statement "stmtcache_1" already exists`},
		{SeverityUnlocalized: "ERROR", Code: "42P01", Message: "relation with OID 4711 does not exist"},
		{SeverityUnlocalized: "ERROR", Code: "42704", Message: "type with OID 4711 does not exist"},
	} {
		if r := effect.SQLFailure(err); r.Outcome != effect.Retry {
			t.Errorf("%s %s: %+v", err.Code, err.Message, r)
		}
	}
}

// What is told of an error never holds the address that was asked for: it may carry a token.
func TestErrorsWithAddressesAreSafe(t *testing.T) {
	t.Parallel()
	err := &url.Error{Op: "Post", URL: "https://user:canary@bank.example/?token=canary", Err: &tls.CertificateVerificationError{Err: errors.New("x509: no")}}
	if got := effect.SafeError(err); strings.Contains(got, "canary") || !strings.Contains(got, "x509: no") {
		t.Errorf("%q", got)
	}
}
