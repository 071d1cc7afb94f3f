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
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// claimer says what the test says, and remembers what it was asked.
type claimer struct {
	suspected bool
	first     inbox.ID
	err       error
	asked     []inbox.RecentCall
	marked    []inbox.ID
}

func (c *claimer) ClaimCall(_ context.Context, call *inbox.RecentCall) (inbox.ID, bool, error) {
	c.asked = append(c.asked, *call)
	return c.first, c.suspected && !call.Insist, c.err
}

func (c *claimer) MarkRepeat(_ context.Context, event inbox.ID) error {
	c.marked = append(c.marked, event)
	return nil
}

func repeats(t *testing.T, g *fakeGate, o *outcomes, c *claimer, settings receiver.Repeats) http.Handler {
	t.Helper()
	cat := catalogtest.Load(t)
	cfg := config(g, newProvider())
	cfg.Sources, cfg.Outcomes, cfg.Calls = map[string]*receiver.Source{"agents": {
		Inbox: &inbox.Source{ID: 9, Name: "agents", Class: "default", Strict: true}, Provider: cat["operation"], Repeats: settings,
		Secrets: func() []providers.Secret { return []providers.Secret{{Name: "agent", Value: []byte("one")}} },
	}}, o, c
	return newReceiver(t, cfg)
}

func TestSuspectedRepeats(t *testing.T) {
	t.Parallel()
	flag, refuse := receiver.Repeats{Within: 10 * time.Minute}, receiver.Repeats{Within: 10 * time.Minute, Refuse: true}
	known := map[string]inbox.ID{"9/agent/agent:charge:k1": recorded}
	parent := map[string]inbox.ID{"9/agent/agent:charge:k0": recorded}
	first := inbox.NewID(now)
	for name, c := range map[string]struct {
		settings receiver.Repeats
		claimer  claimer
		keys     map[string]inbox.ID
		outcome  inbox.Outcome
		parent   string

		status   int
		header   string // that names the first call
		reaches  bool
		marked   int
		asked    int
		problems string
	}{
		"not asked for":            {claimer: claimer{suspected: true}, outcome: inbox.Recorded, status: 202, reaches: true},
		"nothing suspected":        {settings: flag, outcome: inbox.Recorded, status: 202, reaches: true, asked: 1},
		"flagged":                  {settings: flag, claimer: claimer{suspected: true, first: first}, outcome: inbox.Recorded, status: 202, header: first.String(), reaches: true, marked: 1, asked: 1},
		"flagged, first in flight": {settings: flag, claimer: claimer{suspected: true}, outcome: inbox.Recorded, status: 202, header: "unknown", reaches: true, marked: 1, asked: 1},
		"a known key":              {settings: flag, claimer: claimer{suspected: true}, keys: known, outcome: inbox.Duplicate, status: 409, reaches: true, asked: 1, problems: "in_flight"},
		"nobody can flag":          {settings: flag, claimer: claimer{err: errors.New("down")}, outcome: inbox.Recorded, status: 202, reaches: true, asked: 1},
		"refused":                  {settings: refuse, claimer: claimer{suspected: true, first: first}, status: 409, asked: 1, problems: "suspected_repeat"},
		"a known key is answered":  {settings: refuse, claimer: claimer{suspected: true}, keys: known, outcome: inbox.Duplicate, status: 409, reaches: true, asked: 1, problems: "in_flight"},
		"insisted":                 {settings: refuse, claimer: claimer{suspected: true}, keys: parent, outcome: inbox.Recorded, parent: "k0", status: 202, reaches: true, asked: 1},
		"nobody can tell":          {settings: refuse, claimer: claimer{err: errors.New("down")}, status: 503, asked: 1, problems: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := answering(c.outcome)
			h := repeats(t, g, &outcomes{keys: c.keys}, &c.claimer, c.settings)
			var headers []string
			if c.parent != "" {
				headers = []string{receiver.HeaderParent, c.parent}
			}
			w := operate(t, h, headers...)
			if w.Code != c.status || w.Header().Get(receiver.HeaderSuspectedRepeat) != c.header || (len(g.admissions()) == 1) != c.reaches {
				t.Errorf("%d %v %s, %d admissions", w.Code, w.Header(), w.Body, len(g.admissions()))
			}
			if c.header != "" && !strings.Contains(w.Body.String(), `"suspected_repeat":"`+c.header+`"`) {
				t.Errorf("%s", w.Body)
			}
			if c.problems != "" {
				checkRefusal(t, w, c.problems, first)
			}
			if len(c.claimer.asked) != c.asked || len(c.claimer.marked) != c.marked {
				t.Errorf("asked %d times, marked %d", len(c.claimer.asked), len(c.claimer.marked))
			}
		})
	}
}

// A declared operation has settings of its own, and may have none where the source has some.
func TestRepeatsOfADeclaredOperation(t *testing.T) {
	t.Parallel()
	within := 10 * time.Minute
	for name, c := range map[string]struct {
		source receiver.Repeats
		own    *receiver.Repeats
		status int
		asked  int
	}{
		"the source's":               {source: receiver.Repeats{Within: within, Refuse: true}, status: 409, asked: 1},
		"its own, and none else":     {own: &receiver.Repeats{Within: within, Refuse: true}, status: 409, asked: 1},
		"its own is to flag":         {source: receiver.Repeats{Within: within, Refuse: true}, own: &receiver.Repeats{Within: within}, status: 202, asked: 1},
		"its own is to look at none": {source: receiver.Repeats{Within: within, Refuse: true}, own: &receiver.Repeats{}, status: 202},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claims := &claimer{suspected: true, first: inbox.NewID(now)}
			cfg := operationsConfig(t, answering(inbox.Recorded), &outcomes{}, charging(t, receiver.Operation{Repeats: c.own}))
			cfg.Calls, cfg.Sources["agents"].Repeats = claims, c.source
			w := operate(t, newReceiver(t, cfg))
			if w.Code != c.status || len(claims.asked) != c.asked {
				t.Errorf("%d %s, asked %d times", w.Code, w.Body, len(claims.asked))
			}
			if c.asked > 0 && claims.asked[0].Within != within {
				t.Errorf("asked for %s", claims.asked[0].Within)
			}
		})
	}
}

func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, code string, first inbox.ID) {
	t.Helper()
	p := problemOf(t, w)
	if p.Code != code {
		t.Errorf("code %s, want %s", p.Code, code)
	}
	if code == "suspected_repeat" && (p.Event != first.String() || w.Header().Get("Location") != "/in/agents/"+first.String()) {
		t.Errorf("%s does not lead to the first call", w.Body)
	}
}

// What a call is recognised by is what it means, not how it is written.
func TestRepeatsAreRecognisedByMeaning(t *testing.T) {
	t.Parallel()
	c := &claimer{}
	g := answering(inbox.Recorded)
	cat := catalogtest.Load(t)
	cfg := config(g, newProvider())
	cfg.Sources, cfg.Outcomes, cfg.Calls = map[string]*receiver.Source{"agents": {
		Inbox: &inbox.Source{ID: 9, Name: "agents", Strict: true, Canonical: cat["operation"].Canonical}, Provider: cat["operation"], Repeats: receiver.Repeats{Within: time.Minute},
		Secrets: func() []providers.Secret { return []providers.Secret{{Name: "agent", Value: []byte("one")}} },
	}}, &outcomes{}, c
	h := newReceiver(t, cfg)
	for _, body := range []string{`{"a":1,"b":2}`, `{ "b": 2, "a": 1 }`, `{"a":1,"b":3}`} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/agents", strings.NewReader(body))
		for name, value := range map[string]string{"Authorization": "Bearer one", "Oncegate-Operation": "charge", "Idempotency-Key": "k"} {
			req.Header.Set(name, value)
		}
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	if len(c.asked) != 3 || c.asked[0].Hash != c.asked[1].Hash || c.asked[0].Hash == c.asked[2].Hash {
		t.Errorf("%+v", c.asked)
	}
}
