package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const declaredFile = `
targets:
  bank: { kind: forward, url: env:TARGET, idempotent: true, keep_reply: true, retry: { attempts: 1 } }
  mail: { kind: forward, url: env:PROBE, idempotent: true, retry: { attempts: 1 } }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }, { env: CLERK, name: clerk }]
    redact: [card]
    operations:
      charge: { schema: charge.json, versions: ">=2", volatile: [note] }
    routes:
      - { name: bank, types: [charge], target: bank }
      - { name: mail, types: [charge], target: mail }
`

// newDeclared runs a process whose source declares the operation charge, with two targets.
func newDeclared(t *testing.T, bank, mail http.HandlerFunc) *operated {
	t.Helper()
	first, second := httptest.NewServer(bank), httptest.NewServer(mail)
	t.Cleanup(first.Close)
	t.Cleanup(second.Close)
	directory := t.TempDir()
	schema := `{"type":"object","required":["amount"],"properties":{"amount":{"type":"number","minimum":1}}}`
	if err := os.WriteFile(filepath.Join(directory, "charge.json"), []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &operated{}
	o.start(t, filepath.Join(directory, "oncegate.yml"), declaredFile, "TARGET="+first.URL, "PROBE="+second.URL)
	return o
}

type told struct {
	Code, State string
	Status      any // of a result a word, of a problem the HTTP status
	Paths       []string
	Payload     json.RawMessage
	Result      struct{ Status string }
	Effects     []struct{ Route, State, Reason string }
}

func tell(t *testing.T, r reply, status int) told {
	t.Helper()
	var out told
	if err := json.Unmarshal([]byte(r.body), &out); err != nil || r.status != status {
		t.Fatalf("%d %s, %v, want %d", r.status, r.body, err, status)
	}
	return out
}

// A call that does not fit costs nothing; the same key then has one effect, however the call is written,
// and another payload is told what won.
func TestDeclaredOperation(t *testing.T) {
	t.Parallel()
	var paid atomic.Int64
	ok := func(w http.ResponseWriter, _ *http.Request) { paid.Add(1); _, _ = w.Write([]byte(`{"n":1}`)) }
	o := newDeclared(t, ok, ok)
	call := func(body string, headers ...string) reply {
		return o.do(t, "POST", "agents", body, append([]string{"Oncegate-Contract", "2", "Idempotency-Key", "order-1742/charge", "Prefer", "wait=20"}, headers...)...)
	}
	if got := tell(t, call(`{"amount":"100"}`), 422); got.Code != "schema" || len(got.Paths) != 1 || got.Paths[0] != "amount" {
		t.Errorf("%+v", got)
	}
	if got := tell(t, call(`{"amount":1e999999999}`), 422); got.Code != "schema" {
		t.Errorf("%+v", got)
	}
	if got := tell(t, call(`{"amount":100}`, "Oncegate-Contract", "1"), 409); got.Code != "contract_version" {
		t.Errorf("%+v", got)
	}
	if got := tell(t, call(`{"amount":100}`, "Oncegate-Operation", "chrage"), 404); got.Code != "unknown_operation" {
		t.Errorf("%+v", got)
	}
	var recorded int
	if err := o.pool.QueryRow(t.Context(), `SELECT count(*) FROM inbox_event`).Scan(&recorded); err != nil || recorded != 0 {
		t.Fatalf("%d calls are recorded, %v: a key was spent", recorded, err)
	}
	first := call(`{"amount":100,"note":"a"}`)
	if got := tell(t, first, 200); got.Status != "done" {
		t.Fatalf("%+v", got)
	}
	for _, again := range []reply{
		call(`{"note":"b","amount":100.00}`), call(`{"amount":1e2}`, "Idempotency-Key", `"order-1742/charge"`), call(`{"amount":100}`, "Oncegate-Contract", "1"),
	} {
		if again.status != 200 || again.body != first.body {
			t.Errorf("%d %s, want %s", again.status, again.body, first.body)
		}
	}
	differs := call(`{"amount":101}`)
	if got := tell(t, differs, 409); got.Code != "payload_differs" || string(got.Payload) != `{"amount":100}` || got.Result.Status != "done" || len(got.Paths) != 1 ||
		differs.header.Get("Location") != first.header.Get("Location") && first.header.Get("Location") != "" {
		t.Errorf("%s %v", differs.body, differs.header)
	}
	if n := paid.Load(); n != 2 {
		t.Errorf("%d effects, want one for each route", n)
	}
	// What plans do not show, the owner of a key is not told either.
	const hidden = "order-1743/charge"
	call(`{"amount":100,"card":"4111111111111111","api_key":"hunter2"}`, "Idempotency-Key", hidden)
	differs = call(`{"amount":101}`, "Idempotency-Key", hidden)
	if got := tell(t, differs, 409); got.Code != "payload_differs" || !strings.Contains(string(got.Payload), `"amount":100`) ||
		!strings.Contains(string(got.Payload), `"card":`) || strings.Contains(differs.body, "4111111111111111") || strings.Contains(differs.body, "hunter2") {
		t.Errorf("%s", differs.body)
	}
	// The same key is another one for another credential.
	if got := tell(t, call(`{"amount":101}`, "Authorization", "Bearer clerk_secret"), 200); got.Status != "done" {
		t.Errorf("%+v", got)
	}
}

// The contract has the schema of the configuration.
func TestContractOfADeclaredOperation(t *testing.T) {
	t.Parallel()
	o := newDeclared(t, func(http.ResponseWriter, *http.Request) {}, func(http.ResponseWriter, *http.Request) {})
	if got := o.do(t, "GET", "agents/operations", ""); got.status != 200 || got.header.Get("ETag") == "" || !strings.Contains(got.body, `"input_schema":{"type":"object","required":["amount"]`) {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}

// A child of a partial operation does what its parent has not, and shows what that has.
func TestResumedOperation(t *testing.T) {
	t.Parallel()
	var paid, mailed atomic.Int64
	var up atomic.Bool
	o := newDeclared(t, func(w http.ResponseWriter, _ *http.Request) { paid.Add(1); _, _ = w.Write([]byte(`{"n":1}`)) }, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		mailed.Add(1)
	})
	call := func(key string, headers ...string) reply {
		return o.do(t, "POST", "agents", `{"amount":100}`, append([]string{"Oncegate-Contract", "2", "Idempotency-Key", key, "Prefer", "wait=20"}, headers...)...)
	}
	if got := tell(t, call("order-1742/charge"), 200); got.Status != "partial" {
		t.Fatalf("%+v", got)
	}
	up.Store(true)
	child := call("order-1742/charge-2", "Oncegate-Resumes", "order-1742/charge")
	got := tell(t, child, 200)
	if got.Status != "done" || len(got.Effects) != 2 || got.Effects[0].Reason != "parent_done" || got.Effects[1].State != "done" || !strings.Contains(child.body, `"result":{"n":1}`) {
		t.Errorf("%s", child.body)
	}
	if paid.Load() != 1 || mailed.Load() != 1 {
		t.Errorf("paid %d times, mailed %d times, want 1 each", paid.Load(), mailed.Load())
	}
}
