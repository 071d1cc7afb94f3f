package cli_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/oncegate/oncegate/cmd/internal/cli"
)

// refusing starts a server without TLS that refuses every client with the same message.
func refusing(t *testing.T, code, message string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				backend := pgproto3.NewBackend(conn, conn)
				for {
					received, err := backend.ReceiveStartupMessage()
					if err != nil {
						return
					}
					if _, ok := received.(*pgproto3.SSLRequest); ok {
						_, _ = conn.Write([]byte{'N'})
						continue
					}
					backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: message})
					_ = backend.Flush()
					return
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// TestARefusedConnectionSaysWhatToMend checks that the message is one line about the last attempt.
// The texts are those of PostgreSQL 15 and PgBouncer 1.18.
func TestARefusedConnectionSaysWhatToMend(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mode, code, message string
		want, never               []string
	}{
		{"pg_hba.conf has only hostssl", "disable", "28000", `no pg_hba.conf entry for host "10.0.0.7", user "ours", database "db", no encryption`,
			[]string{"insists on TLS", "sslmode=verify-full", "sslmode=require"}, []string{"user or password"}},
		{"the same, with TLS tried first", "prefer", "28000", `no pg_hba.conf entry for host "10.0.0.7", user "ours", database "db", no encryption`,
			[]string{"insists on TLS", "TLS was tried: server refused TLS connection"}, nil},
		{"let in nowhere", "disable", "28000", `no pg_hba.conf entry for host "10.0.0.7", user "ours", database "db", SSL encryption`,
			[]string{"no pg_hba.conf entry for host"}, []string{"insists on TLS", "user or password"}},
		{"PgBouncer with client_tls_sslmode", "disable", "08P01", "SSL required", []string{"insists on TLS"}, nil},
		{"PgBouncer and a startup parameter", "prefer", "08P01", "unsupported startup parameter: options",
			[]string{"pooler", "startup parameter options", "ignore_startup_parameters"}, []string{"TLS"}},
		{"a wrong password", "prefer", "28P01", `password authentication failed for user "ours"`, []string{"refuses the user or password"}, nil},
		{"no such database", "prefer", "3D000", `database "db" does not exist`, []string{"does not exist on the server; create it"}, nil},
		{"starting up", "prefer", "57P03", "the database system is starting up",
			[]string{"the database system is starting up", "; with TLS: server refused TLS connection"}, nil},
		{"TLS insisted on here", "require", "57P03", "is not reached", []string{"server refused TLS connection"}, []string{"; with TLS"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := pgx.Connect(t.Context(), "postgres://ours:secret_word@"+refusing(t, test.code, test.message)+"/db?sslmode="+test.mode)
			got := cli.Report(err)
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
			for _, never := range append(test.never, "secret_word") {
				if strings.Contains(got, never) {
					t.Errorf("%q says %q", got, never)
				}
			}
			if strings.Count(got, "\n") != 1 {
				t.Errorf("not one line: %q", got)
			}
		})
	}
	if got := cli.Report(errors.New("plain")); got != "oncegate: plain [failed]\n" {
		t.Errorf("got %q", got)
	}
}
