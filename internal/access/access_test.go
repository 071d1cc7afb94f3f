package access_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

func TestAuthenticateByToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, created := b.create(t, tokens.New{Name: "ci", Tenant: "acme", Scopes: []string{"read-payload", "operate", "of-a-later-version"}, ExpiresAt: b.at.Add(time.Hour)})
	got, err := b.bearer(t, text, "192.0.2.1")
	if err != nil || got.Actor != "token:ci/"+created.ID.String() || got.Credential != "token/"+created.ID.String() || got.Tenant != "acme" || got.Scopes.String() != "read-payload, operate" {
		t.Fatalf("%+v %v", got, err)
	}
	found, err := b.tokens.Read(t.Context(), created.ID)
	if err != nil || found.LastUsedAt == nil || !found.LastUsedAt.Equal(b.at) {
		t.Errorf("the use is recorded as %v, %v", found.LastUsedAt, err)
	}
	for _, headers := range [][]string{{"Bearer"}, {"Bearer "}, {"Basic " + text}, {text}, {"Bearer " + text, "Bearer " + text}, {"Bearer " + text + " x"}, {""}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header["Authorization"] = headers
		if _, err := b.Authenticate(r); code(err) != control.CodeUnauthorized || strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v", headers, err)
		}
	}
	if _, err := b.Authenticate(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)); code(err) != control.CodeUnauthorized {
		t.Errorf("without anything: %v", err)
	}
	if _, err := b.bearer(t, "ogs_"+strings.Repeat("a", 43), "192.0.2.1"); code(err) != control.CodeUnauthorized || !strings.Contains(err.Error(), "agent session") {
		t.Errorf("the token of an agent session: %v", err)
	}
	b.at = b.at.Add(time.Hour)
	if _, err := b.bearer(t, text, "192.0.2.1"); code(err) != control.CodeUnauthorized || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its expiry: %v", err)
	}
}

// A process notices a revocation within two seconds.
func TestARevokedTokenStopsWorking(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, created := b.create(t, tokens.New{Name: "ci"})
	if _, err := b.bearer(t, text, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tokens.Revoke(t.Context(), tokens.Revocation{ID: created.ID, Actor: "x", Reason: "leaked"}); err != nil {
		t.Fatal(err)
	}
	b.at = b.at.Add(2 * time.Second)
	if _, err := b.bearer(t, text, "192.0.2.1"); code(err) != control.CodeUnauthorized || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("%v", err)
	}
}

// The configuration knows the same scopes as the operations.
func TestTheConfigurationKnowsTheScopes(t *testing.T) {
	t.Parallel()
	if got, want := strings.Join(config.AccessScopes(), ", "), control.Scopes(control.KnownScopes()).String(); got != want {
		t.Errorf("the configuration knows %s, the operations ask for %s", got, want)
	}
}

// An internal error is not a refusal.
func TestWithoutADatabaseNobodyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text, _ := b.create(t, tokens.New{Name: "ann"})
	b.pool.Close()
	if _, err := b.bearer(t, text, "192.0.2.1"); code(err) != control.CodeUnavailable {
		t.Errorf("%v", err)
	}
}
