package effecttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/egress/egresstest"
)

// enough is more than any sender may read of an endless reply, including what is in the buffers of
// both sides.
const enough = 32 << 20

// pour writes until the other side stops reading. A side that reads this much would read any
// amount.
func pour(tb testing.TB, conn net.Conn, begin, more string) {
	_, _ = io.WriteString(conn, begin)
	junk := strings.Repeat(more, 64<<10/len(more))
	for taken := 0; ; {
		n, err := io.WriteString(conn, junk)
		if err != nil {
			return
		}
		if taken += n; taken > enough {
			tb.Errorf("it takes %d bytes and goes on", taken)
			return
		}
	}
}

// dropByDrop writes a byte every 20 ms until the other side closes.
func dropByDrop(begin, more string) Script {
	return func(conn net.Conn, _ Request) {
		_, _ = io.WriteString(conn, begin)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			<-tick.C
			next := "x"
			if i < len(more) {
				next = more[i : i+1]
			}
			if _, err := io.WriteString(conn, next); err != nil {
				return
			}
		}
	}
}

// closing ends a connection after its script.
func closing(script Script) Script {
	return func(conn net.Conn, req Request) {
		script(conn, req)
		_ = conn.Close()
	}
}

func pad(n int) string { return strings.Repeat("x", n) }

// certificate returns the configuration of a server with a certificate for 127.0.0.1, and of a
// client that trusts it.
func certificate(tb testing.TB) (server, client *tls.Config) {
	tb.Helper()
	s := httptest.NewTLSServer(nil)
	tb.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func handshake(conn net.Conn, config *tls.Config) {
	_ = tls.Server(conn, config).HandshakeContext(context.Background())
	_, _ = io.Copy(io.Discard, conn)
}

// forbiddenAddresses returns addresses that no target may have, in various spellings.
func forbiddenAddresses() []string {
	return []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[::a9fe:a9fe]",
		"[::ffff:0:a9fe:a9fe]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16",
		"[fe80::1]", "224.0.0.1", "0.0.0.0", "[::]", "255.255.255.255",
	}
}

// rebinding returns a resolver whose first answer was a public address and whose further answers
// are the loopback interface.
func rebinding(tb testing.TB) *net.Resolver {
	tb.Helper()
	resolver := egresstest.NewNameServer(tb, "93.184.216.34", "127.0.0.1").Resolver()
	if _, err := resolver.LookupNetIP(tb.Context(), "ip4", "target.example."); err != nil {
		tb.Fatal(err)
	}
	return resolver
}

// named returns the URL with a host name instead of its address.
func named(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.Host = net.JoinHostPort("target.example.", u.Port())
	return u.String()
}
