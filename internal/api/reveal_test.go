package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/access/accesstest"
	"github.com/oncegate/oncegate/internal/control"
)

// Whoever reads content as it came is in the audit before they get it, by whatever operation: what needs the scope
// read-payload reads content.
func TestWhoeverReadsContentIsInTheAudit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ids := h.fill(t)
	h.exec(t, `UPDATE refusal SET headers = '{}'`)
	paths := map[string]string{
		"read_event_body": "/events/" + ids["event"] + "/body", "reveal_payload": "/payloads/event/" + ids["event"] + "/content",
		"compare_payloads": "/events/" + ids["event"] + "/changes/" + ids["event"], "read_conflict_body": "/conflicts/" + ids["conflict"] + "/body",
		"list_conflict_changes": "/conflicts/" + ids["conflict"] + "/changes", "read_refusal_body": "/refusals/" + ids["refusal"] + "/body",
		"read_outbox_payload": "/outbox/1/payload",
	}
	reveals := func() (n int) {
		if err := h.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'payload.reveal' AND actor LIKE 'ann of %'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if d.Scope != control.ReadPayload || d.ID == control.CheckSuppression.ID { // whoever asks has the address already
			continue
		}
		path := paths[d.ID]
		if path == "" {
			t.Errorf("%s reads content, and this test does not call it", d.ID)
			continue
		}
		before := reveals()
		if got := h.request(t, d.Method, path, "read-payload", nil); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", d.ID, got.status, got.body)
		}
		if reveals() == before {
			t.Errorf("%s gives content, and the audit does not say to whom", d.ID)
		}
		if got := h.request(t, d.Method, path, "read-metadata", nil); got.status != http.StatusForbidden {
			t.Errorf("%s without read-payload: %d %s", d.ID, got.status, got.body)
		}
	}
	h.exec(t, `DROP TABLE audit CASCADE`)
	if got := h.request(t, http.MethodGet, paths["reveal_payload"], "read-payload", nil); got.status < 500 || strings.Contains(string(got.body), "amount") {
		t.Errorf("what cannot be recorded is given: %d %s", got.status, got.body)
	}
}

// The audit names each person who reads content. A refused reader gets no content and leaves no entry.
func TestReadingContentIsAudited(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	th := s.things(t)
	reader := accesstest.Token(t, s.pool, "acme", control.ReadPayload)
	operator := accesstest.Token(t, s.pool, "", control.Operate)
	count := func() (n int) {
		t.Helper()
		if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'payload.reveal' AND actor LIKE 'token:test-%' AND object <> ''`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	found, recorded := 0, 0
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if d.Scope != control.ReadPayload || d.ID == control.CheckSuppression.ID { // whoever asks has the address already
			continue
		}
		found++
		example := examples(&th)[d.ID]
		if status, text := s.ask(t, operator, &d, example); status != http.StatusForbidden || strings.Contains(text, tenantMark) || count() != recorded {
			t.Errorf("%s answers whoever may not read content %d %s, with %d entries", d.ID, status, text, count())
		}
		if status, text := s.ask(t, reader, &d, example); status != http.StatusOK || !strings.Contains(text, tenantMark) || count() <= recorded {
			t.Errorf("%s answers %d %s, and the audit has %d entries after %d", d.ID, status, text, count(), recorded)
		}
		recorded = count()
	}
	if found < 5 {
		t.Errorf("only %d operations give content", found)
	}
}
