package access_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/session"
)

// bench is an Access with a settable clock and a pool that counts statements.
type bench struct {
	*access.Access
	tokens    *tokens.Store
	logins    *logins.Store
	pool      *pgxpool.Pool
	at        time.Time
	questions atomic.Int64
	uses      atomic.Int64
	log       logtest.Buffer
}

// TraceQueryStart counts the statements that look up a token or a login, and those that record a
// use.
func (b *bench) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "digest = $1") {
		b.questions.Add(1)
	}
	if strings.Contains(data.SQL, "SET used_at") || strings.Contains(data.SQL, "SET last_used_at") {
		b.uses.Add(1)
	}
	return ctx
}

func (b *bench) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// asked returns the number of lookups since the last call.
func (b *bench) asked() int64 { return b.questions.Swap(0) }

func newBench(t *testing.T, change func(*access.Config)) *bench {
	t.Helper()
	b := &bench{at: time.Now().UTC().Truncate(time.Second)}
	url, schema := inboxtest.Schema(t)
	plain := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	traced := plain.Config().Copy()
	traced.ConnConfig.Tracer = b
	pool, err := pgxpool.NewWithConfig(t.Context(), traced)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	now := func() time.Time { return b.at }
	b.pool, b.tokens, b.logins = pool, tokens.NewStore(pool, now), logins.NewStore(logins.Config{Pool: pool, Now: now})
	cfg := access.Config{Tokens: b.tokens, Logins: b.logins, Now: now, Home: "/console", Logger: slog.New(slog.NewTextHandler(&b.log, nil))}
	if change != nil {
		change(&cfg)
	}
	if b.Access, err = access.New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// create creates a token.
func (b *bench) create(t *testing.T, n tokens.New) (string, *tokens.Token) {
	t.Helper()
	n.Actor = "test"
	if n.Scopes == nil {
		n.Scopes = []string{"operate"}
	}
	text, created, err := b.tokens.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return text, created
}

// bearer authenticates a request with the token.
func (b *bench) bearer(t *testing.T, token, peer string) (control.Access, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.RemoteAddr = peer + ":1234"
	return b.Authenticate(r)
}

func code(err error) control.Code {
	if err == nil {
		return ""
	}
	return control.ProblemOf(err).Code
}
