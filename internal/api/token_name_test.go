package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
)

// A token with the name of a revoked one leaves entries of its own in the audit, and people find those of both by the name.
func TestTheAuditTellsTokensOfOneNameApart(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	store := tokens.NewStore(s.pool, nil)
	reveal := control.ReadEventBody.Describe()
	var ids []string
	for range 2 {
		text, created, err := store.Create(t.Context(), tokens.New{Name: "ci", Scopes: []string{"admin"}, Actor: "test"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, created.ID.String())
		th := s.things(t)
		if status, answer := s.ask(t, text, &reveal, request{"ref": th.event}); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		list := control.ListAudit.Describe()
		for actor, wanted := range map[string][]string{"token:ci": ids, "token:ci/" + created.ID.String(): ids[len(ids)-1:], "token:c": nil} {
			_, answer := s.ask(t, text, &list, request{"actor": actor, "action": "payload.reveal"})
			for _, id := range wanted {
				if !strings.Contains(answer, `"actor":"token:ci/`+id+`"`) {
					t.Errorf("the audit of %s does not name the token %s: %s", actor, id, answer)
				}
			}
			if got := strings.Count(answer, `"actor":`); got != len(wanted) {
				t.Errorf("the audit of %s has %d entries, want %d: %s", actor, got, len(wanted), answer)
			}
		}
		if _, err := store.Revoke(t.Context(), tokens.Revocation{ID: created.ID, Actor: "x", Reason: "leaked"}); err != nil {
			t.Fatal(err)
		}
	}
}
