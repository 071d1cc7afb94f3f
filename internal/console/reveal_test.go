package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/control"
)

// Every way to look at a payload as it came is by an operation that names the reader in the audit.
func TestEveryLookAtAPayloadIsByAnOperationThatIsAudited(t *testing.T) {
	t.Parallel()
	answers := filler(attack)
	c := newConsole(t, answers, control.Admin)
	for _, kind := range []string{"events", "conflicts", "refusals"} {
		for _, view := range []string{"pretty", "raw", "hex", "download"} {
			if got := send(t, c, http.MethodPost, "/"+kind+"/"+someID+"/payload", "view="+view); got.Code != http.StatusOK {
				t.Errorf("%s as %s: %d", kind, view, got.Code)
			}
			if asked := answers.Asked(); asked["reveal_payload"] != 1 {
				t.Errorf("%s as %s asks %v", kind, view, asked)
			}
		}
	}
	send(t, c, http.MethodPost, "/conflicts/"+someID+"/changes", "")
	if asked := answers.Asked(); asked["list_conflict_changes"] != 1 {
		t.Errorf("the changes of a conflict ask %v", asked)
	}
	get(t, c, "/compare?first="+someID+"&second="+someID)
	if asked := answers.Asked(); asked["compare_payloads"] != 1 {
		t.Errorf("a comparison asks %v", asked)
	}
	for _, page := range []string{"/events/" + someID, "/conflicts/" + someID, "/refusals/" + someID} {
		get(t, c, page)
		if asked := answers.Asked(); asked["reveal_payload"] != 0 || asked["show_payload"] != 1 {
			t.Errorf("%s asks %v: it shows a payload with its members masked, and reveals none", page, asked)
		}
	}
}

// A search by content needs read-payload, so no form offers it to an access without that scope.
func TestFormsOfferNoSearchThatIsRefused(t *testing.T) {
	t.Parallel()
	answers := filler("ok")
	all, metadata := newConsole(t, answers, control.Admin), newConsole(t, answers, control.ReadMetadata, control.Operate)
	for page, field := range map[string]string{
		"/events": `name="label"`, "/streams": `name="key"`, "/runs": `name="label"`, "/replays/new": `name="label"`, "/replays/new?": `name="text"`,
		"/suppressions": `action="/suppressions/check"`,
	} {
		if got := get(t, all, page).Body.String(); !strings.Contains(got, field) {
			t.Errorf("%s has no %s", page, field)
		}
		if got := get(t, metadata, page).Body.String(); strings.Contains(got, field) {
			t.Errorf("%s has %s, which is refused without read-payload", page, field)
		}
	}
}
