package receiver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
)

// parents answers every call with one document.
type parents struct {
	*outcomes
	document string
}

func (p *parents) Await(_ context.Context, _ inbox.ID, _ time.Duration) ([]byte, bool, error) {
	return []byte(p.document), p.document != "", nil
}

// A call goes on where its parent ended only once it is known where that is; until then no key is spent.
func TestACallThatResumesNeedsASettledParent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		document string
		plain    bool // the operation does not resume
		recorded bool
		status   int
	}{
		"in flight": {status: 409}, "indeterminate": {document: `{"status":"indeterminate"}`, status: 409},
		"in flight, and nothing is resumed":   {plain: true, status: 202},
		"in flight, and the call is recorded": {recorded: true, status: 202},
		"done":                                {document: `{"status":"done"}`, status: 202}, "partial": {document: `{"status":"partial"}`, status: 202}, "failed": {document: `{"status":"failed"}`, status: 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := map[string]inbox.ID{"9/agent/agent:charge:k0": recorded}
			if c.recorded {
				keys["9/agent:charge:k1"] = recorded
			}
			g := answering(inbox.Recorded)
			h := operations(t, g, &parents{&outcomes{keys: keys}, c.document}, charging(t, receiver.Operation{Resume: !c.plain}))
			w := operate(t, h, "Oncegate-Parent", "k0")
			if w.Code != c.status || (len(g.admissions()) == 1) != (c.status == http.StatusAccepted) {
				t.Fatalf("%d %s, %d admissions", w.Code, w.Body, len(g.admissions()))
			}
			if c.status == 409 && (!strings.Contains(w.Body.String(), `"code":"parent_unsettled"`) || w.Header().Get("Location") != "/in/agents/"+recordedID || w.Header().Get("Retry-After") != "1") {
				t.Errorf("%s %v", w.Body, w.Header())
			}
		})
	}
}
