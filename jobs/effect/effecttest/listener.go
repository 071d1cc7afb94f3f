package effecttest

import (
	"net"
	"sync"
	"testing"
)

// listen serves each connection to the loopback interface until the test ends.
func listen(tb testing.TB, serve func(net.Conn)) (address string) {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var (
		open  sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			open.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close() // a sender may keep it alive
		}
		mu.Unlock()
		open.Wait()
	})
	return listener.Addr().String()
}

// nobody returns an address at which no process listens.
func nobody(tb testing.TB) string {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
