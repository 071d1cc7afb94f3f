package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// sink is the development target: an HTTP server in the process, on a separate loopback port. Like
// a good target it deduplicates by Idempotency-Key, and it prints a line when it does.
type sink struct {
	url    string
	server *http.Server

	mu    sync.Mutex
	seen  map[string]bool
	order []string
	out   io.Writer
}

func startSink(ctx context.Context, out io.Writer) (*sink, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the development target: %w", err)
	}
	s := &sink{url: "http://" + listener.Addr().String() + "/effects", seen: map[string]bool{}, out: out}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

func (s *sink) stop() { _ = s.server.Close() }

// ServeHTTP implements [http.Handler].
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "the header Idempotency-Key is missing", http.StatusBadRequest)
		return
	}
	if s.repeated(key) {
		fmt.Fprintf(s.out, "%s %-21s key %s\n", time.Now().Format("15:04:05.000"), "target saw it before", clean(key))
	}
	w.WriteHeader(http.StatusNoContent)
}

// repeated records a key and reports whether it had been recorded before.
func (s *sink) repeated(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[key] {
		return true
	}
	s.seen[key] = true
	s.order = append(s.order, key)
	if len(s.order) > 100_000 {
		delete(s.seen, s.order[0])
		s.order = s.order[1:]
	}
	return false
}
