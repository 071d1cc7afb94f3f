// Package servertest serves an inbox in a test: the whole of Oncegate on a new schema. The path of the target's
// address decides whether the target accepts, refuses or does not answer.
package servertest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/session"
)

// Limit is how long something may take at most on a busy machine.
const Limit = 60 * time.Second

// Config describes the inbox. File is required.
type Config struct {
	// File is the configuration, as a format for the address of the database (%[1]q), the schema (%[2]s), the address of
	// the target (%[3]s) and the directory of the secrets (%[4]s).
	File string

	// Secrets are the secrets that the configuration refers to, by the name of the file in their directory.
	Secrets map[string]string

	// Reply is the body of the target's answer when it accepts a request, Refusal when it refuses one.
	Reply, Refusal string
}

// Server is an inbox that runs until the test ends.
type Server struct {
	// Pool uses the schema of the inbox.
	Pool *pgxpool.Pool

	// Public is the server for deliveries. Private is the server for the API and the console.
	Public, Private *httptest.Server

	// TargetMended makes the target accept the requests that it refuses otherwise.
	TargetMended atomic.Bool
}

// Start starts a server. Its target accepts every request, with two exceptions: until TargetMended is set it refuses
// requests below /refuse, and it closes the connection of requests below /cut without an answer.
func Start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s := &Server{}
	og, url, schema := s.open(t, cfg)
	s.Public, s.Private = httptest.NewServer(og.Handler()), httptest.NewServer(og.Admin())
	t.Cleanup(s.Public.Close)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- og.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		s.Private.CloseClientConnections() // a page that follows what happens would not end by itself
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		s.Private.Close()
	})
	select {
	case <-og.Started():
	case err := <-ended:
		t.Fatalf("Run: %v", err)
	case <-time.After(Limit):
		t.Fatal("not started in time")
	}
	s.Pool = inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	return s
}

// open opens the inbox that the configuration describes.
func (s *Server) open(t *testing.T, cfg Config) (og *oncegate.Inbox, url, schema string) {
	t.Helper()
	target := httptest.NewServer(s.target(cfg))
	t.Cleanup(target.Close)
	url, schema = inboxtest.Schema(t)
	directory := t.TempDir()
	file := filepath.Join(directory, "oncegate.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, cfg.File, url, schema, target.URL, directory), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, secret := range cfg.Secrets {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := oncegate.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	og, err = oncegate.Open(t.Context(), loaded)
	if err != nil {
		t.Fatal(err)
	}
	return og, url, schema
}

func (s *Server) target(cfg Config) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/cut"):
			panic(http.ErrAbortHandler) // the request was read, and no answer comes
		case strings.HasPrefix(r.URL.Path, "/refuse") && !s.TargetMended.Load():
			http.Error(out, cfg.Refusal, http.StatusUnprocessableEntity)
		default:
			_, _ = io.WriteString(out, cfg.Reply)
		}
	}
}

// Token creates a token that expires in an hour and returns its text. The token is for one tenant, or for all tenants
// if tenant is empty.
func (s *Server) Token(t *testing.T, name, tenant string, scopes ...string) string {
	t.Helper()
	text, _, err := tokens.NewStore(s.Pool, nil).Create(t.Context(), tokens.New{
		Name: name, Tenant: tenant, Scopes: scopes, Actor: "test", ExpiresAt: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatalf("creating the token %s: %v", name, err)
	}
	return text
}

// Until waits for a query to count n, and fails the test after [Limit].
func (s *Server) Until(t *testing.T, n int, query string) {
	t.Helper()
	deadline := time.Now().Add(Limit)
	for {
		var got int
		if err := s.Pool.QueryRow(t.Context(), query).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d, want %d", query, got, n)
		}
		<-time.After(20 * time.Millisecond)
	}
}
