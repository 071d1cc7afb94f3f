// Package accesstest creates tokens and links for tests of code that authenticates requests.
package accesstest

import (
	"strings"
	"testing"

	"crypto/rand"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
)

// Token creates a token with scopes for a tenant, or for all tenants if tenant is empty, and
// returns its text.
func Token(tb testing.TB, pool *pgxpool.Pool, tenant string, scopes ...control.Scope) string {
	tb.Helper()
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	text, _, err := tokens.NewStore(pool, nil).Create(tb.Context(), tokens.New{
		Name: "test-" + strings.ToLower(rand.Text()[:12]), Scopes: names, Tenant: tenant, Actor: "test",
	})
	if err != nil {
		tb.Fatalf("creating a token for the test: %v", err)
	}
	return text
}

// New returns an Access that uses pool, configured as in a server.
func New(tb testing.TB, pool *pgxpool.Pool) *access.Access {
	tb.Helper()
	a, err := access.New(access.Config{Tokens: tokens.NewStore(pool, nil), Logins: logins.NewStore(logins.Config{Pool: pool})})
	if err != nil {
		tb.Fatalf("making an Access for the test: %v", err)
	}
	return a
}
