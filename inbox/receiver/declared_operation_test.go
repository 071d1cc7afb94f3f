package receiver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for text, accepted := range map[string]string{">=2": "2 3 4 9", "2": "2", "2-4": "2 3 4", "1,3": "1 3", "<=1, 3 - 3": "0 1 3", "0": "0"} {
		v, err := receiver.ParseVersions(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for n, word := range map[int]string{0: "0", 1: "1", 2: "2", 3: "3", 4: "4", 9: "9"} {
			if want := strings.Contains(" "+accepted+" ", " "+word+" "); v.Accept(n) != want {
				t.Errorf("%s accepts %d: %v", text, n, v.Accept(n))
			}
		}
		if again, err := receiver.ParseVersions(v.String()); err != nil || again.String() != v.String() {
			t.Errorf("%s is shown as %s, %v", text, v, err)
		}
	}
	for _, text := range []string{"", ",", "2,", ">2", "=2", "a", "-1", "02", "+2", "4-2", "1.0", ">=", "2--3", "99999999999"} {
		if v, err := receiver.ParseVersions(text); err == nil {
			t.Errorf("%q is taken as %s", text, v)
		}
	}
}

// charging declares the operation charge.
func charging(t *testing.T, o receiver.Operation) func(*receiver.Source) {
	t.Helper()
	return func(s *receiver.Source) {
		s.Operations = map[string]*receiver.Operation{"charge": &o}
		p, err := s.Provider.(*providers.Provider).WithOperations(map[string][]string{"charge": nil})
		if err != nil {
			t.Fatal(err)
		}
		s.Provider = p
	}
}

func versions(t *testing.T, text string) receiver.Versions {
	t.Helper()
	v, err := receiver.ParseVersions(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What is refused reaches the gate in no form, so that the same key can be used once the call is right.
func TestDeclaredOperationsSpendNoKey(t *testing.T) {
	t.Parallel()
	var fits bool
	o := receiver.Operation{Versions: versions(t, ">=2"), MinKey: 16, Check: func([]byte) ([]string, string) {
		if fits {
			return nil, ""
		}
		return []string{"n"}, "n: want string"
	}}
	g := answering(inbox.Recorded)
	known := &outcomes{keys: map[string]inbox.ID{}}
	h := operations(t, g, known, charging(t, o))
	const key = "order-1742/charge"
	for _, c := range []struct {
		name, code, detail string
		status             int
		headers            []string
	}{
		{"an operation that is not declared", "unknown_operation", "did you mean charge", 404, []string{"Oncegate-Operation", "chrage"}},
		{"no version", "contract_version", "header Oncegate-Contract is missing; accepted is >=2", 409, nil},
		{"another version", "contract_version", "version 1 of the contract is not accepted; accepted is >=2", 409, []string{"Oncegate-Contract", "1"}},
		{"no version at all", "contract_version", "not a whole number", 409, []string{"Oncegate-Contract", "v2"}},
		{"another payload", "schema", "n: want string", 422, []string{"Oncegate-Contract", "2"}},
		{"JSON as a form", "schema", "send Content-Type: application/json", 422, []string{"Oncegate-Contract", "2", "Content-Type", "application/x-www-form-urlencoded"}},
		{"a short key", "invalid_key", "at least 16", 400, []string{"Oncegate-Contract", "2", "Idempotency-Key", "15-characters--"}},
		{"a short key in quotes", "invalid_key", "at least 16", 400, []string{"Oncegate-Contract", "2", "Idempotency-Key", `"15-characters--"`}},
	} {
		w := operate(t, h, append([]string{"Idempotency-Key", key}, c.headers...)...)
		var told struct {
			Code, Detail string
			Paths        []string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || w.Code != c.status || told.Code != c.code || !strings.Contains(told.Detail, c.detail) {
			t.Errorf("%s: %d %s, %v", c.name, w.Code, w.Body, err)
		}
		if c.code == "schema" && (len(told.Paths) != 1 || told.Paths[0] != "n") {
			t.Errorf("%s: the paths are %q", c.name, told.Paths)
		}
	}
	if seen := g.admissions(); len(seen) != 0 {
		t.Fatalf("the gate got %+v", seen)
	}
	fits = true
	for _, form := range []string{key, `"` + key + `"`} {
		g.forget()
		if w := operate(t, h, "Idempotency-Key", form, "Oncegate-Contract", "2"); w.Code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", form, w.Code, w.Body)
		}
		if seen := g.admissions(); len(seen) != 1 || seen[0].Events[0].EventID != "agent:charge:"+key {
			t.Errorf("%s: the gate got %+v", form, seen)
		}
	}
	if w := operate(t, h, "Authorization", "Bearer wrong", "Oncegate-Operation", "chrage"); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "charge") {
		t.Errorf("a stranger got %d %s", w.Code, w.Body)
	}
}

// A call that is recorded is answered, whatever has been declared since: the answer may have been lost.
func TestRecordedCallsAreAnsweredAfterADeclaration(t *testing.T) {
	t.Parallel()
	o := receiver.Operation{Versions: versions(t, "7"), MinKey: 16, Check: func([]byte) ([]string, string) { return []string{"$"}, "$: no" }}
	g := answering(inbox.Duplicate)
	known := &outcomes{settled: true, keys: map[string]inbox.ID{"9/agent:charge:k1": recorded}}
	h := operations(t, g, known, charging(t, o))
	for _, header := range []string{"k1", `"k1"`} {
		g.forget()
		if w := operate(t, h, "Idempotency-Key", header); w.Code != http.StatusOK || w.Body.String() != document {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
		if seen := g.admissions(); len(seen) != 1 || seen[0].Events[0].EventID != "agent:charge:k1" {
			t.Errorf("%s: the gate got %+v, want agent:charge:k1", header, seen)
		}
	}
}

func TestInFlightAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how    receiver.InFlight
		prefer string
		status int
		waited time.Duration
	}{
		"409":                         {receiver.InFlightConflict, "", 409, 0},
		"202":                         {receiver.InFlightAccepted, "", 202, 0},
		"wait":                        {receiver.InFlightWait, "", 409, 30 * time.Second},
		"wait, less was asked for":    {receiver.InFlightWait, "wait=2", 409, 2 * time.Second},
		"202 after what was asked":    {receiver.InFlightAccepted, "wait=3", 202, 3 * time.Second},
		"409, as today, after a wait": {receiver.InFlightConflict, "wait=3", 409, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := &outcomes{}
			known.waited.Store(-1)
			h := operations(t, answering(inbox.Duplicate), known, charging(t, receiver.Operation{InFlight: c.how}))
			w := operate(t, h, "Prefer", c.prefer)
			if w.Code != c.status || time.Duration(known.waited.Load()) != c.waited || w.Header().Get("Retry-After") != "1" || !strings.HasSuffix(w.Header().Get("Location"), recordedID) {
				t.Errorf("%d after %s, %v", w.Code, time.Duration(known.waited.Load()), w.Header())
			}
			if c.status == 202 && !strings.HasPrefix(w.Body.String(), `{"event":"`+recordedID+`","status":"in_flight"`) {
				t.Errorf("%s", w.Body)
			}
		})
	}
}

// The credential that owns the key is told what it recorded under it and what became of that.
func TestADifferentPayloadIsToldWhatWon(t *testing.T) {
	t.Parallel()
	intent := []byte("12345678901234567890123456789012")
	conflicting := func(original string, gone inbox.OriginalGone) *fakeGate {
		return &fakeGate{answer: func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
			item := inbox.ItemReceipt{ID: recorded, Outcome: inbox.Conflict, Paths: []string{"amount"}, Intent: intent, OriginalGone: gone}
			if original != "" {
				item.Original = []byte(original)
			}
			return inbox.Receipt{Items: []inbox.ItemReceipt{item}}, nil
		}}
	}
	type answer struct {
		Code, Event, State, Detail string
		IntentHash                 string `json:"intent_hash"`
		Paths                      []string
		Result, Payload            json.RawMessage
	}
	ask := func(t *testing.T, g *fakeGate, o *outcomes) answer {
		t.Helper()
		w := operate(t, operations(t, g, o, nil))
		var a answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusConflict || w.Header().Get("Location") != "/in/agents/"+recordedID {
			t.Fatalf("%d %s %v, %v", w.Code, w.Body, w.Header(), err)
		}
		if a.Code != "payload_differs" || a.Event != recordedID || len(a.Paths) != 1 || a.IntentHash == "" {
			t.Errorf("%+v", a)
		}
		return a
	}
	if a := ask(t, conflicting(`{"amount":1}`, ""), &outcomes{settled: true}); string(a.Payload) != `{"amount":1}` || string(a.Result) != document || a.State != "done" {
		t.Errorf("%+v", a)
	}
	if a := ask(t, conflicting(`{"amount":1}`, ""), &outcomes{}); a.Result != nil || a.State != "in_flight" {
		t.Errorf("%+v", a)
	}
	if a := ask(t, conflicting(`{"amount":1}`, ""), &outcomes{err: errors.New("down")}); a.Result != nil || string(a.Payload) != `{"amount":1}` {
		t.Errorf("%+v", a)
	}
	for _, gone := range []inbox.OriginalGone{inbox.OriginalPruned, inbox.OriginalSealed, inbox.OriginalNotJSON, inbox.OriginalTooLarge} {
		if a := ask(t, conflicting("", gone), &outcomes{settled: true}); a.Payload != nil || a.Detail == "" || string(a.Result) != document {
			t.Errorf("%s: %+v", gone, a)
		}
	}
}
