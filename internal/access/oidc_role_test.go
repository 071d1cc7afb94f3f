package access_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/access"
)

// The first matching role of the configuration applies, and roles are not combined.
func TestRolesAreNotAddedUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim  string
		claims map[string]any
		want   string
	}{
		"both":       {"groups", map[string]any{"groups": []string{"support", "admins"}}, "oidc:ann@example.com admin "},
		"a text":     {"groups", map[string]any{"groups": "support"}, "oidc:ann@example.com operate, read-payload acme"},
		"nested":     {"realm_access.roles", map[string]any{"realm_access": map[string]any{"roles": []string{"admins"}}}, "oidc:ann@example.com admin "},
		"a dot":      {"https://example.com/roles", map[string]any{"https://example.com/roles": []string{"admins"}}, "oidc:ann@example.com admin "},
		"unverified": {"groups", map[string]any{"email_verified": false, "groups": "admins"}, "oidc:user-1 admin "},
		"no email":   {"groups", map[string]any{"email": nil, "groups": "admins"}, "oidc:user-1 admin "},
		"long": {"groups", map[string]any{"email": nil, "sub": strings.Repeat("é", 100) + "\u202e\x00", "groups": "admins"},
			"oidc:" + strings.Repeat("é", 60) + " admin "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			b := newOIDCBench(t, p, func(o *access.OIDC) { o.Claim = c.claim })
			w := newBrowser(t, b, "https://oncegate.example")
			callback := p.consent(t, w.begin("/login/oidc"))
			p.claims = func(claims map[string]any) { maps.Copy(claims, c.claims) }
			w.is(w.do(http.MethodGet, callback, nil), "the callback", 303, "/console")
			if got := w.who(); got != c.want {
				t.Errorf("the browser is %q, want %q", got, c.want)
			}
		})
	}
}
