package receiver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

func repeats(t *testing.T, g *fakeGate, o *outcomes, settings receiver.Repeats, own *receiver.Repeats) http.Handler {
	t.Helper()
	return operations(t, g, o, func(s *receiver.Source) {
		charging(t, receiver.Operation{Repeats: own})(s)
		s.Repeats = settings
	})
}

// marking is a gate that says that a call repeats another one.
func marking(first inbox.ID) *fakeGate {
	return &fakeGate{answer: func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		r := receipt(a, inbox.Recorded)
		r.Items[0].Repeats = first
		return r, nil
	}}
}

func TestSuspectedRepeats(t *testing.T) {
	t.Parallel()
	flag, refuse := receiver.Repeats{Within: 10 * time.Minute}, receiver.Repeats{Within: 10 * time.Minute, Refuse: true}
	first := inbox.NewID(now)
	known := map[string]inbox.ID{"9/agent:charge:k1": recorded, "9/agent/" + first.String(): first}
	mine := map[string]inbox.ID{"9/agent/" + first.String(): first}
	for name, c := range map[string]struct {
		settings receiver.Repeats
		own      *receiver.Repeats
		gate     *fakeGate
		outcomes *outcomes

		status  int
		header  string // that names the first call
		noted   bool   // the gate is to note the call
		refuses bool   // and to refuse it
		code    string
		next    string
	}{
		"not asked for":           {outcomes: &outcomes{first: first}, status: 202},
		"nothing suspected":       {settings: flag, outcomes: &outcomes{}, status: 202, noted: true},
		"flagged":                 {settings: flag, gate: marking(first), outcomes: &outcomes{}, status: 202, header: first.String(), noted: true},
		"first":                   {settings: refuse, outcomes: &outcomes{}, status: 202, noted: true, refuses: true},
		"refused":                 {settings: refuse, outcomes: &outcomes{first: first, keys: mine}, status: 409, code: "suspected_repeat", next: "wait"},
		"refused, first settled":  {settings: refuse, outcomes: &outcomes{first: first, keys: mine, settled: true}, status: 409, code: "suspected_repeat", next: "use_result"},
		"a known key is answered": {settings: refuse, gate: answering(inbox.Duplicate), outcomes: &outcomes{first: first, keys: known}, status: 409, noted: true, refuses: true, code: "in_flight", next: "wait"},
		"nobody can tell":         {settings: refuse, outcomes: &outcomes{first: first, err: errors.New("down")}, status: 503, code: "unavailable", next: "repeat"},
		"the operation's own":     {own: &refuse, outcomes: &outcomes{first: first, keys: mine}, status: 409, code: "suspected_repeat", next: "wait"},
		"its own is to flag":      {settings: refuse, own: &flag, outcomes: &outcomes{first: first}, status: 202, noted: true},
		"its own is not to look":  {settings: refuse, own: &receiver.Repeats{}, outcomes: &outcomes{first: first}, status: 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := c.gate
			if g == nil {
				g = answering(inbox.Recorded)
			}
			w := operate(t, repeats(t, g, c.outcomes, c.settings, c.own))
			admissions := g.admissions()
			if w.Code != c.status || w.Header().Get(receiver.HeaderSuspectedRepeat) != c.header {
				t.Errorf("%d %v %s, %d admissions", w.Code, w.Header(), w.Body, len(admissions))
			}
			noted := len(admissions) == 1 && admissions[0].Events[0].Recent != nil
			if noted != c.noted || noted && (admissions[0].Events[0].Recent.Refuse != c.refuses || admissions[0].Events[0].Recent.Within != 10*time.Minute) {
				t.Errorf("the gate was given %+v", admissions)
			}
			if c.header != "" && !strings.Contains(w.Body.String(), `"suspected_repeat":"`+c.header+`"`) {
				t.Errorf("%s", w.Body)
			}
			if c.code != "" {
				checkRefusal(t, w, c.code, c.next, first)
			}
		})
	}
}

func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, code, next string, first inbox.ID) {
	t.Helper()
	p := problemOf(t, w)
	if p.Code != code || p.Next != next {
		t.Errorf("%s, want the code %s and next %s", w.Body, code, next)
	}
	if code == "suspected_repeat" && (p.Event != first.String() || w.Header().Get("Location") != "/in/agents/"+first.String()) {
		t.Errorf("%s does not lead to the first call", w.Body)
	}
}

// What a call is recognised by is what it means, not how it is written.
func TestRepeatsAreRecognisedByMeaning(t *testing.T) {
	t.Parallel()
	g := answering(inbox.Recorded)
	cat := catalogtest.Load(t)
	h := operations(t, g, &outcomes{}, func(s *receiver.Source) {
		s.Inbox.Canonical, s.Repeats = cat["operation"].Canonical, receiver.Repeats{Within: time.Minute}
	})
	for _, body := range []string{`{"a":1,"b":2}`, `{ "b": 2, "a": 1 }`, `{"a":1,"b":3}`} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/agents", strings.NewReader(body))
		for name, value := range map[string]string{"Authorization": "Bearer one", "Oncegate-Operation": "charge", "Idempotency-Key": "k"} {
			req.Header.Set(name, value)
		}
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	var hashes [][32]byte
	for _, a := range g.admissions() {
		hashes = append(hashes, a.Events[0].Recent.Hash)
	}
	if len(hashes) != 3 || hashes[0] != hashes[1] || hashes[0] == hashes[2] {
		t.Errorf("%x", hashes)
	}
}

// No part of a call's hash runs into the next.
func TestRecentCallHashKeepsPartsApart(t *testing.T) {
	t.Parallel()
	if inbox.RecentCallHash("ab", "c", nil) == inbox.RecentCallHash("a", "bc", nil) {
		t.Error("two calls have one hash")
	}
}
