package receiver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// contract asks what a credential may call.
func contract(t *testing.T, h http.Handler, method, secret string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, "/in/agents/operations", nil)
	req.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// A caller reads what it may call and how. Its contract leaves out what others may call, and an unverified caller gets none.
func TestCallersReadTheirContract(t *testing.T) {
	t.Parallel()
	declare := func(s *receiver.Source) {
		charging(t, receiver.Operation{})(s)
		s.Operations = map[string]*receiver.Operation{
			"charge": {Description: "Charges an amount.", Schema: []byte(`{"type":"object","required":["n"]}`), Versions: versions(t, ">=2"), Key: []string{"body.step"}, Volatile: []string{"note"}, Keep: 90 * 24 * time.Hour, InFlight: receiver.InFlightWait},
			"notify": {MinKey: 16, Repeats: &receiver.Repeats{Within: time.Hour, Refuse: true}},
		}
		s.Credentials = map[string]receiver.Credential{"agent": {}, "clerk": {Operations: []string{"notify"}, Tenant: "acme", NewKeys: receiver.Quota{N: 60, Per: time.Minute}}}
	}
	h := operations(t, answering(inbox.Recorded), &outcomes{}, declare)
	w := contract(t, h, "GET", "one")
	const charge = `{"name":"charge","description":"Charges an amount.","input_schema":{"type":"object","required":["n"]},"versions":"\u003e=2","key":{"fields":["body.step"]},"compare":"canonical","volatile":["note"],"in_flight":"wait","kept_for_seconds":7776000}`
	const notify = `{"name":"notify","description":"Operation notify of source agents.","input_schema":{"type":"object"},"key":{"header":"Idempotency-Key","min_length":16},"compare":"canonical","in_flight":"409","repeats":{"within_seconds":3600,"answer":"409"},"kept_for_seconds":2592000}`
	if want := `"operations":[` + charge + `,` + notify + `],"other_operations":false`; w.Code != 200 || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
	var document struct {
		Next     []operation.NextMeaning
		Statuses []struct{ Status string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || len(document.Next) != len(operation.NextMeanings()) || len(document.Statuses) != 4 {
		t.Errorf("%+v, %v", document, err)
	}
	if w := contract(t, h, "GET", "two"); strings.Contains(w.Body.String(), "charge") || !strings.Contains(w.Body.String(), notify) || !strings.Contains(w.Body.String(), `"tenant":"acme"`) ||
		!strings.Contains(w.Body.String(), `"new_keys":[{"of":"credential clerk","burst":60,"per_minute":60}]`) {
		t.Errorf("the clerk reads %s", w.Body)
	}

	tag := w.Header().Get("ETag")
	for _, c := range []struct {
		method, secret, tag string
		status              int
	}{
		{"GET", "one", tag, 304}, {"HEAD", "one", `W/"x", W/` + tag, 304}, {"GET", "one", "*", 304}, {"GET", "one", `"x"`, 200}, {"GET", "two", tag, 200},
		{"POST", "one", "", 405}, {"GET", "three", tag, 401},
	} {
		got := contract(t, h, c.method, c.secret, "If-None-Match", c.tag)
		if got.Code != c.status || c.status == 304 && (got.Body.Len() > 0 || got.Header().Get("ETag") != tag) || c.status == 401 && strings.Contains(got.Body.String(), "notify") {
			t.Errorf("%+v: %d %v %s", c, got.Code, got.Header(), got.Body)
		}
	}

	// A source that declares nothing takes any name, and shows those that its routes name.
	undeclared := operations(t, answering(inbox.Recorded), &outcomes{}, func(s *receiver.Source) {
		s.Inbox.Routes = []inbox.Route{{Types: []string{"charge", "mail.*"}}}
	})
	if w := contract(t, undeclared, "GET", "one"); !strings.Contains(w.Body.String(), `"operations":[{"name":"charge"`) || !strings.Contains(w.Body.String(), `"other_operations":true`) || strings.Contains(w.Body.String(), "mail.") {
		t.Errorf("%s", w.Body)
	}
}
