package rig_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// TestProxySpeaksTLSToTheServer asks for TLS as the connection string says. The client of the proxy speaks plainly.
func TestProxySpeaksTLSToTheServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sslmode string
		answer        byte
		works         bool
	}{
		{"required and offered", "require", 'S', true},
		{"required and refused", "require", 'N', false},
		{"preferred and refused", "prefer", 'N', true},
		{"preferred and offered", "prefer", 'S', true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			proxy, dsn, err := rig.StartProxy("postgres://user:password@" + echo(t, c.answer) + "/db?sslmode=" + c.sslmode)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = proxy.Close() })
			got := ask(t, dsn)
			if works := bytes.Equal(got, []byte("hello")); works != c.works {
				t.Errorf("the echo is %q, want one: %t", got, c.works)
			}
		})
	}
}

// TestProxyStalls holds back what is sent, and forwards it afterwards.
func TestProxyStalls(t *testing.T) {
	t.Parallel()
	proxy, dsn, err := rig.StartProxy("postgres://user@" + echo(t, 'N') + "/db?sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	const length = 300 * time.Millisecond
	proxy.Stall(length)
	began := time.Now()
	if got := ask(t, dsn); !bytes.Equal(got, []byte("hello")) {
		t.Errorf("the echo is %q", got)
	}
	if took := time.Since(began); took < length/2 {
		t.Errorf("the answer came after %s", took)
	}
}

// ask sends hello to the host of a connection string and returns the answer.
func ask(t *testing.T, dsn string) []byte {
	t.Helper()
	cut := bytes.Split([]byte(dsn), []byte{'@'})
	host, _, _ := bytes.Cut(cut[len(cut)-1], []byte{'/'})
	conn, err := net.Dial("tcp", string(host))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		return nil
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil {
		return nil
	}
	return got
}

// echo starts a server that answers a request for TLS with a byte, and then sends back what it gets.
func echo(t *testing.T, answer byte) (address string) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	listener, err := rig.Listen()
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
				if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
					return
				}
				if _, err := conn.Write([]byte{answer}); err != nil {
					return
				}
				if answer == 'S' {
					conn = tls.Server(conn, config)
				}
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}
