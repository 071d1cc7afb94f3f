package receiver_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const document = `{"event":"` + recordedID + `","status":"done","next":"use_result"}`

// outcomes answers as the test says; keys are the known ones, by whole key or id.
type outcomes struct {
	settled bool
	err     error
	keys    map[string]inbox.ID
	waited  atomic.Int64 // a time.Duration; callers may ask at once

	// first is the recent call with the same arguments, under the key "first"; asked counts who looked for it.
	first inbox.ID
	asked atomic.Int64

	// meanwhile is called while somebody waits; it may be nil.
	meanwhile func()
}

func (o *outcomes) Await(_ context.Context, _ inbox.ID, atMost time.Duration) ([]byte, bool, error) {
	o.waited.Store(int64(atMost))
	if o.meanwhile != nil {
		o.meanwhile()
	}
	if o.err != nil || !o.settled {
		return nil, false, o.err
	}
	return []byte(document), true, nil
}

func (o *outcomes) Outcome(context.Context, inbox.ID) (*operation.EventOutcome, error) {
	if o.err != nil {
		return nil, o.err
	}
	return &operation.EventOutcome{Event: recorded, Effects: []operation.EffectOutcome{{Route: "pay", State: "done", Result: json.RawMessage(`{"n":1}`)}}}, nil
}

func (o *outcomes) Find(_ context.Context, source int32, credential, ref string) (inbox.ID, error) {
	if o.err != nil {
		return inbox.ID{}, o.err
	}
	if id, ok := o.keys[fmt.Sprint(source, "/", credential, "/", ref)]; ok {
		return id, nil
	}
	return inbox.ID{}, inbox.ErrNotFound
}

func (o *outcomes) FindKey(_ context.Context, source int32, eventID string) (bool, error) {
	_, ok := o.keys[fmt.Sprint(source, "/", eventID)]
	return ok, nil
}

func (o *outcomes) FollowedCall(context.Context, *inbox.Follow) (*operation.FollowedCall, error) {
	return nil, inbox.ErrNotFound
}

func (o *outcomes) RecentCall(_ context.Context, _ int32, _ [sha256.Size]byte) (inbox.ID, string, error) {
	o.asked.Add(1)
	switch {
	case o.err != nil:
		return inbox.ID{}, "", o.err
	case o.first.IsZero():
		return inbox.ID{}, "", inbox.ErrNotFound
	}
	return o.first, "agent:charge:first", nil
}

// operations serves the catalogue's operations at /in/agents.
func operations(t *testing.T, g receiver.Accepter, o receiver.Outcomes, change func(*receiver.Source)) http.Handler {
	t.Helper()
	return newReceiver(t, operationsConfig(t, g, o, change))
}

func operationsConfig(t *testing.T, g receiver.Accepter, o receiver.Outcomes, change func(*receiver.Source)) receiver.Config {
	t.Helper()
	cat := catalogtest.Load(t)
	cfg := config(g, newProvider())
	source := &receiver.Source{
		Inbox: &inbox.Source{ID: 9, Name: "agents", Class: "default", Strict: true, Tombstone: 30 * 24 * time.Hour}, Provider: cat["operation"],
		Secrets: func() []providers.Secret {
			return []providers.Secret{{Name: "agent", Value: []byte("one")}, {Name: "clerk", Value: []byte("two")}}
		},
	}
	if change != nil {
		change(source)
	}
	cfg.Sources, cfg.Outcomes, cfg.Installation = map[string]*receiver.Source{"agents": source}, o, installation
	return cfg
}

func operate(t *testing.T, h http.Handler, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return operateAt(t, h, "agents", headers...)
}

// operateAt calls an operation of another source than agents.
func operateAt(t *testing.T, h http.Handler, source string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/"+source, strings.NewReader(`{"n":1}`))
	req.Header.Set("Authorization", "Bearer one")
	req.Header.Set("Oncegate-Operation", "charge")
	req.Header.Set("Idempotency-Key", "k1")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestOperationAnswers(t *testing.T) {
	t.Parallel()
	const acknowledged = `{"event":"` + recordedID + `","status":"recorded","event_id":"agent:charge:k1","operation":"charge","state":"in_flight",` +
		`"intent_hash":"c0ffee","retriable":true,"next":"wait","expires_at":"2025-03-31T12:40:33Z"}`
	for name, c := range map[string]struct {
		outcome inbox.Outcome
		settled bool
		err     error
		prefer  string
		wait    time.Duration

		status  int
		body    string
		problem string // a part of it
		header  map[string]string
		waited  time.Duration
	}{
		"first":                        {outcome: inbox.Recorded, status: 202, body: acknowledged, header: map[string]string{"Location": "/in/agents/" + recordedID}, waited: -1},
		"first, settled, nobody waits": {outcome: inbox.Recorded, settled: true, status: 202, body: acknowledged, waited: -1},
		"first, waited for": {outcome: inbox.Recorded, settled: true, prefer: "respond-async, wait=5", status: 200, body: document,
			header: map[string]string{"Preference-Applied": "wait=5", "Idempotent-Replayed": ""}, waited: 5 * time.Second},
		"first, waited for in vain": {outcome: inbox.Recorded, prefer: "wait=5", status: 202, body: acknowledged, waited: 5 * time.Second},
		"first, nobody can tell":    {outcome: inbox.Recorded, err: errors.New("down"), prefer: "wait=5", status: 202, body: acknowledged, waited: 5 * time.Second},
		"repeated": {outcome: inbox.Duplicate, settled: true, status: 200, body: document,
			header: map[string]string{"Idempotent-Replayed": "true", "Oncegate-Event": recordedID,
				receiver.HeaderIntentHash: "c0ffee", receiver.HeaderExpiresAt: "2025-03-31T12:40:33Z"}},
		"repeated in flight": {outcome: inbox.Duplicate, status: 409, problem: `"code":"in_flight"`,
			header: map[string]string{"Retry-After": "1", "Content-Type": "application/problem+json", "Oncegate-Event": recordedID}},
		"repeated, nobody can tell": {outcome: inbox.Duplicate, err: errors.New("down"), status: 503, header: map[string]string{"Retry-After": "5"}},
		"other payload":             {outcome: inbox.Conflict, status: 409, problem: `"paths":["amount","to.name"]`, waited: 0},
		"an endless wait":           {outcome: inbox.Duplicate, prefer: "wait=99999", status: 409, waited: 30 * time.Second},
		"a shorter limit":           {outcome: inbox.Duplicate, prefer: "wait=99999", wait: 2 * time.Second, status: 409, waited: 2 * time.Second},
		"no wait here":              {outcome: inbox.Duplicate, prefer: "wait=10", wait: -1, status: 409, waited: -1},
		"a wait of mist":            {outcome: inbox.Duplicate, prefer: "wait=soon", status: 409},
		"a negative wait":           {outcome: inbox.Duplicate, prefer: "wait=-5", status: 409},
		"a quoted wait":             {outcome: inbox.Duplicate, prefer: `Wait = "7"; x=1`, status: 409, waited: 7 * time.Second},
		"another wish":              {outcome: inbox.Duplicate, prefer: "return=minimal", status: 409},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &outcomes{settled: c.settled, err: c.err}
			o.waited.Store(-1)
			h := operations(t, answering(c.outcome), o, func(s *receiver.Source) { s.LongestWait = c.wait })
			var headers []string
			if c.prefer != "" {
				headers = []string{"Prefer", c.prefer}
			}
			w := operate(t, h, headers...)
			if w.Code != c.status || c.body != "" && w.Body.String() != c.body || !strings.Contains(w.Body.String(), c.problem) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.body)
			}
			for name, want := range c.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if c.wait >= 0 && time.Duration(o.waited.Load()) != c.waited {
				t.Errorf("waited %s, want %s", time.Duration(o.waited.Load()), c.waited)
			}
		})
	}
}

func TestOperationIsIdentified(t *testing.T) {
	t.Parallel()
	h := operations(t, answering(inbox.Recorded), &outcomes{}, nil)
	for name, c := range map[string]struct {
		header, value string
		status        int
		detail        string
	}{
		"no operation":       {"Oncegate-Operation", "", 400, "Oncegate-Operation is missing"},
		"a wild operation":   {"Oncegate-Operation", "charge:x", 400, "is not a name"},
		"no key":             {"Idempotency-Key", "", 400, "Idempotency-Key is missing"},
		"a key with a blank": {"Idempotency-Key", "a b", 400, "visible ASCII"},
		"a key of umlauts":   {"Idempotency-Key", "ä", 400, "visible ASCII"},
		"the longest key":    {"Idempotency-Key", strings.Repeat("k", 255-len("agent:charge:")), 202, ""},
		"a longer key":       {"Idempotency-Key", strings.Repeat("k", 256-len("agent:charge:")), 400, "longer than 255 bytes"},
		"a stranger":         {"Authorization", "Bearer three", 401, ""},
		"nobody":             {"Authorization", "", 401, ""},
		"an unknown parent":  {receiver.HeaderResumes, "k0", 400, "names no earlier call"},
	} {
		w := operate(t, h, c.header, c.value)
		var problem struct{ Detail string }
		_ = json.Unmarshal(w.Body.Bytes(), &problem)
		if w.Code != c.status || !strings.Contains(problem.Detail, c.detail) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A parent is an earlier call of the same credential, by its key in the same
// operation or by our id; a key that looks like an id is a key first.
func TestOperationParent(t *testing.T) {
	t.Parallel()
	older := inbox.NewID(now)
	o := &outcomes{keys: map[string]inbox.ID{
		"9/agent/agent:charge:k0": older, "9/agent/" + recordedID: recorded, "9/clerk/clerk:charge:k9": recorded,
		"9/agent/agent:charge:019551b9-0000-7001-8001-000000000000": older, `9/agent/agent:charge:"former"`: older,
	}}
	for ref, want := range map[string]inbox.ID{
		"k0": older, recordedID: recorded, "019551b9-0000-7001-8001-000000000000": older, "k9": {},
		`"k0"`: older, `"` + recordedID + `"`: recorded, `"former"`: older, "former": older, `"k9"`: {}, `"k0`: {}, `k0"`: {},
	} {
		g := answering(inbox.Recorded)
		l := &line{outcomes: o, document: `{"status":"failed","next":"resume"}`, call: operation.FollowedCall{Operation: "charge"}}
		w := operate(t, operations(t, g, l, nil), receiver.HeaderInsteadOf, ref)
		if want.IsZero() {
			if w.Code != http.StatusBadRequest || len(g.admissions()) != 0 {
				t.Errorf("%s: %d, %d admissions", ref, w.Code, len(g.admissions()))
			}
			continue
		}
		if w.Code != http.StatusAccepted || g.admissions()[0].Events[0].Follows.Parent != want {
			t.Errorf("%s: %d %s", ref, w.Code, w.Body)
		}
	}
}

// The quota is for new keys alone: who repeats a call is answered, and has used
// up nothing.
func TestOperationQuota(t *testing.T) {
	t.Parallel()
	known := map[string]inbox.ID{}
	g := &fakeGate{}
	g.answer = func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		id := "9/agent/" + a.Events[0].EventID
		if _, ok := known[id]; ok {
			return receipt(a, inbox.Duplicate), nil
		}
		known[id] = recorded
		return receipt(a, inbox.Recorded), nil
	}
	h := operations(t, g, &outcomes{settled: true, keys: known}, func(s *receiver.Source) { s.NewKeys = 3 })
	for i, c := range []struct {
		key  string
		want int
	}{{"a", 202}, {"a", 200}, {"a", 200}, {"a", 200}, {"b", 202}, {"c", 202}, {"d", 429}, {"a", 200}, {"c", 200}, {"d", 429}} {
		w := operate(t, h, "Idempotency-Key", c.key)
		if w.Code != c.want {
			t.Fatalf("call %d, %s: %d, want %d", i, c.key, w.Code, c.want)
		}
		if after := w.Header().Get("Retry-After"); (c.want == 429) != (after == "20") {
			t.Errorf("call %d: Retry-After %q; three a minute are one in 20 s", i, after)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	o := &outcomes{keys: map[string]inbox.ID{"9/agent/" + recordedID: recorded}}
	settled := &outcomes{settled: true, keys: o.keys}
	for name, c := range map[string]struct {
		o            *outcomes
		method, path string
		secret       string
		status       int
		body         string
	}{
		"settled":          {settled, "GET", "/in/agents/" + recordedID, "one", 200, document},
		"in flight":        {o, "GET", "/in/agents/" + recordedID, "one", 202, `{"event":"` + recordedID + `","status":"in_flight","state":"in_flight","retriable":true,"next":"wait","retry_after":1,"expires_at":"2025-03-31T12:40:33Z"}`},
		"somebody else's":  {settled, "GET", "/in/agents/" + recordedID, "two", 404, "not_found"},
		"a stranger":       {settled, "GET", "/in/agents/" + recordedID, "three", 401, "unauthorized"},
		"nothing":          {settled, "GET", "/in/agents/019551b9-0000-7001-8001-000000000000", "one", 404, "not_found"},
		"no id":            {settled, "GET", "/in/agents/agent:charge:k1", "one", 404, "not_found"},
		"an unknown place": {settled, "GET", "/in/nobody/" + recordedID, "one", 404, ""},
		"a delivery":       {settled, "POST", "/in/agents/" + recordedID, "one", 405, "method_not_allowed"},
		"trouble":          {&outcomes{err: errors.New("down")}, "GET", "/in/agents/" + recordedID, "one", 503, "unavailable"},
	} {
		req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		req.Header.Set("Authorization", "Bearer "+c.secret)
		w := httptest.NewRecorder()
		operations(t, answering(), c.o, nil).ServeHTTP(w, req)
		if w.Code >= 400 && c.body != "" {
			if got := problemOf(t, w).Code; got != c.body {
				t.Errorf("%s: code %s, want %s", name, got, c.body)
			}
		} else if w.Body.String() != c.body {
			t.Errorf("%s: %s, want %s", name, w.Body, c.body)
		}
		if w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.status)
		}
	}
}

// A provider's source that asks for it answers a duplicate with what became of
// it; what cannot be told does not make it less of a duplicate.
func TestDuplicateAnswersWithItsOutcome(t *testing.T) {
	t.Parallel()
	const plain = `{"event":"` + recordedID + `","status":"duplicate"}`
	for name, c := range map[string]struct {
		outcome inbox.Outcome
		asked   bool
		err     error
		body    string
		want    string
	}{
		"asked for":    {inbox.Duplicate, true, nil, `{"id":"a"}`, `{"event":"` + recordedID + `","status":"duplicate","effects":[{"route":"pay","state":"done","result":{"n":1}}]}`},
		"not asked":    {inbox.Duplicate, false, nil, `{"id":"a"}`, plain},
		"unknown":      {inbox.Duplicate, true, errors.New("down"), `{"id":"a"}`, plain},
		"a batch":      {inbox.Duplicate, true, nil, `[{"id":"a"},{"id":"b"}]`, plain},
		"the first":    {inbox.Recorded, true, nil, `{"id":"a"}`, `{"event":"` + recordedID + `","status":"recorded"}`},
		"the conflict": {inbox.Conflict, true, nil, `{"id":"a"}`, `{"event":"` + recordedID + `","status":"conflict"}`},
	} {
		cfg := config(answering(c.outcome), newProvider())
		cfg.Sources["shop"].AnswerOutcome, cfg.Outcomes = c.asked, &outcomes{err: c.err}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/shop", strings.NewReader(c.body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Signature", sign(c.body))
		w := httptest.NewRecorder()
		newReceiver(t, cfg).ServeHTTP(w, req)
		if w.Code != http.StatusOK || w.Body.String() != c.want {
			t.Errorf("%s: %d %s, want %s", name, w.Code, w.Body, c.want)
		}
	}
}

func TestOutcomesAreChecked(t *testing.T) {
	t.Parallel()
	cfg := config(answering(), newProvider())
	cfg.Sources["shop"].AnswerOutcome, cfg.Sources["shop"].NewKeys = true, 1
	if _, err := receiver.New(cfg); err == nil || !strings.Contains(err.Error(), "need Outcomes") || !strings.Contains(err.Error(), "is for operations") {
		t.Errorf("%v", err)
	}
}
