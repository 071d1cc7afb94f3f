package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// openedSession is what an engine gets.
type openedSession struct{ Session, Token, Run, Code, Detail string }

// open opens a session in the source with what the engine asks for.
func (o *operated) open(t *testing.T, source, asked string, headers ...string) (openedSession, reply) {
	t.Helper()
	r := o.do(t, "POST", source+"/sessions", asked, headers...)
	var s openedSession
	if err := json.Unmarshal([]byte(r.body), &s); err != nil {
		t.Fatalf("%d %q: %v", r.status, r.body, err)
	}
	return s, r
}

// under calls an operation under a session and waits for its result.
func (o *operated) under(t *testing.T, source string, s openedSession, body string, headers ...string) reply {
	t.Helper()
	return o.do(t, "POST", source, body, append([]string{"Authorization", "Bearer " + s.Token, "Prefer", "wait=20"}, headers...)...)
}

func (r reply) is(t *testing.T, what string, status int, part string) {
	t.Helper()
	if r.status != status || !strings.Contains(r.body, part) {
		t.Errorf("%s is answered %d %s, want %d with %s", what, r.status, r.body, status, part)
	}
}

// The run and the step make the key: the same step is one effect and one result, through however
// many sessions of the run, and also where a recipe makes the key of the same parts.
func TestSessionsOfARunMakeOneEffect(t *testing.T) {
	t.Parallel()
	o := newOperated(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"charge":"ch_1"}`)) })
	first, opened := o.open(t, "agents", `{"run":"42"}`)
	if opened.status != 201 || first.Run != "42" || !strings.HasPrefix(first.Token, "ogs_") || opened.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s %v", opened.status, opened.body, opened.header)
	}
	second, _ := o.open(t, "agents", `{"run":"42"}`)
	if second.Token == first.Token || second.Session == first.Session {
		t.Error("two sessions have one token")
	}
	done := o.under(t, "agents", first, `{"amount":1}`, "Oncegate-Step", "3")
	done.is(t, "a step", 200, `"status":"done"`)
	again := o.under(t, "agents", second, `{"amount":1}`, "Oncegate-Step", "3")
	if again.body != done.body || again.header.Get("Idempotent-Replayed") != "true" || o.calls.Load() != 1 {
		t.Errorf("a repeated step is answered %s after %s, with %d calls", again.body, done.body, o.calls.Load())
	}
	tick := o.under(t, "agents", second, `{"amount":1}`, "Oncegate-Step", "3", "Oncegate-Tick", "2")
	tick.is(t, "another tick", 200, `"status":"done"`)
	if tick.body == done.body || o.calls.Load() != 2 {
		t.Errorf("another tick is answered %s, with %d calls", tick.body, o.calls.Load())
	}
	o.under(t, "agents", second, `{"amount":2}`, "Oncegate-Step", "3").is(t, "the step with another payload", 409, "payload_differs")
	if key := textOf(t, o.pool, `SELECT min(event_id) FROM inbox_event`); key != "agent:charge:42:3" {
		t.Errorf("the key is %s", key)
	}

	// Where the source has a recipe, a call without a session and one under a session are one.
	recipe := o.do(t, "POST", "runs", `{"step":"pay:1","tick":7}`, "Run-Id", "r%1", "Prefer", "wait=20")
	recipe.is(t, "a call by the recipe", 200, `"status":"done"`)
	of, _ := o.open(t, "runs", `{"run":"r%1"}`)
	same := o.under(t, "runs", of, `{"step":"pay:1","tick":7}`, "Oncegate-Step", "pay:1", "Oncegate-Tick", "7")
	if same.body != recipe.body || o.calls.Load() != 3 {
		t.Errorf("the same step under a session is answered %d %s, with %d calls", same.status, same.body, o.calls.Load())
	}
	// A key that is too long is a digest, and the session still knows its own call.
	long := o.under(t, "agents", first, `{}`, "Oncegate-Step", strings.Repeat("x", 500))
	long.is(t, "a long step", 200, `"status":"done"`)
	at := strings.TrimPrefix(long.header.Get("Location"), "/in/")
	bearer := []string{"Authorization", "Bearer " + first.Token}
	o.do(t, "GET", at, "", bearer...).is(t, "asking for it without its step", 404, "not_found")
	o.do(t, "GET", at, "", append(bearer, "Oncegate-Step", strings.Repeat("x", 500))...).is(t, "asking for it with its step", 200, `"status":"done"`)
}

// A session reaches nothing but its run, what it may call, and no key.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	o := newOperated(t, func(http.ResponseWriter, *http.Request) {})
	mine, _ := o.open(t, "agents", `{"run":"42","operations":["charge"],"new_keys":2,"contract":"2"}`)
	other, _ := o.open(t, "agents", `{"run":"43"}`)
	own := o.under(t, "agents", mine, `{}`, "Oncegate-Step", "1")
	foreign := o.under(t, "agents", other, `{}`, "Oncegate-Step", "1")
	at := func(r reply) string { return strings.TrimPrefix(r.header.Get("Location"), "/in/") }
	bearer := "Bearer " + mine.Token

	o.under(t, "agents", mine, `{}`, "Oncegate-Step", "2", "Idempotency-Key", "mine").is(t, "a key under a session", 400, `"key_not_allowed"`)
	o.under(t, "agents", mine, `{}`).is(t, "no step", 400, `"missing_key"`)
	o.under(t, "agents", mine, `{}`, "Oncegate-Step", "2", "Oncegate-Operation", "refund").is(t, "an operation that the session may not call", 403, `"operation_not_allowed"`)
	o.under(t, "agents", mine, `{}`, "Oncegate-Step", "2", "Oncegate-Contract", "3").is(t, "another contract", 409, `"contract_version"`)
	o.do(t, "GET", at(own), "", "Authorization", bearer).is(t, "the own operation", 200, `"status":"done"`)
	o.do(t, "GET", at(foreign), "", "Authorization", bearer).is(t, "that of another run", 404, `"not_found"`)
	for _, parent := range []string{foreign.header.Get("Oncegate-Event"), "43:1"} {
		o.under(t, "agents", mine, `{}`, "Oncegate-Step", "2", "Oncegate-Resumes", parent).is(t, "a parent of another run", 400, `"unknown_parent"`)
	}
	o.do(t, "POST", "agents/sessions", `{"run":"44"}`, "Authorization", bearer).is(t, "a session that opens another one", 403, `"operation_not_allowed"`)
	o.do(t, "POST", "runs", `{}`, "Authorization", bearer, "Oncegate-Step", "1").is(t, "the token at another source", 401, `"unauthorized"`)

	// The quota belongs to the run: a further session gets none of what was used up.
	o.under(t, "agents", mine, `{}`, "Oncegate-Step", "2").is(t, "the last new key", 200, `"status":"done"`)
	o.under(t, "agents", mine, `{}`, "Oncegate-Step", "3").is(t, "one new key too many", 429, `"quota"`)
	further, _ := o.open(t, "agents", `{"run":"42","new_keys":2}`)
	o.under(t, "agents", further, `{}`, "Oncegate-Step", "3").is(t, "the same under a further session", 429, `"quota"`)
	o.under(t, "agents", further, `{}`, "Oncegate-Step", "2").is(t, "a repeated step", 200, `"status":"done"`)

	for asked, part := range map[string]string{
		``: "run", `[]`: "run", `{"run":""}`: "run is a text", `{"run":"a\n"}`: "run is a text", `{"run":42}`: "run", `{"rum":"42"}`: "rum",
		`{"run":"1","expires_in":28801}`: "from 1 to 28800", `{"run":"1","expires_in":0}`: "from 1 to 28800", `{"run":"1","new_keys":-1}`: "new_keys",
		`{"run":"1","operations":[]}`: "leave it out",
	} {
		o.do(t, "POST", "agents/sessions", asked).is(t, "asking for "+asked, 400, part)
	}
	o.do(t, "POST", "agents/sessions", `{"run":"1"}`, "Authorization", "Bearer wrong").is(t, "a wrong credential", 401, `"unauthorized"`)
	if n := textOf(t, o.pool, `SELECT count(*)::text FROM agent_session WHERE run = '1' OR to_jsonb(agent_session)::text LIKE '%ogs!_%' ESCAPE '!'`); n != "0" {
		t.Errorf("%s sessions were opened that should not, or hold their token", n)
	}
	if n := textOf(t, o.pool, `SELECT count(*)::text FROM inbox_event`); n != "3" {
		t.Errorf("%s keys were spent, want 3", n)
	}
}

// A session ends when its holder ends it, when it is revoked and when it expires, within seconds
// and in every process; what was done stays, and the engine goes on with another one.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	o := newOperated(t, func(http.ResponseWriter, *http.Request) {})
	call := func(s openedSession) reply { return o.under(t, "agents", s, `{}`, "Oncegate-Step", "1") }
	ends := func(s openedSession, code string) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			r := call(s)
			if r.status == 401 && strings.Contains(r.body, `"code":"`+code+`"`) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the session still gets %d %s, want %s", r.status, r.body, code)
			}
		}
	}
	ended, _ := o.open(t, "agents", `{"run":"42"}`)
	done := call(ended)
	if r := o.do(t, "DELETE", "agents/sessions/current", "", "Authorization", "Bearer "+ended.Token); r.status != 204 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	call(ended).is(t, "an ended session", 401, `"session_revoked"`)
	if r := o.do(t, "DELETE", "agents/sessions/current", "", "Authorization", "Bearer "+ended.Token); r.status != 204 {
		t.Errorf("ending it again: %d %s", r.status, r.body)
	}
	revoked, _ := o.open(t, "agents", `{"run":"42"}`)
	if r := call(revoked); r.body != done.body {
		t.Errorf("the next session gets %d %s, want %s", r.status, r.body, done.body)
	}
	id, err := inbox.ParseID(revoked.Session)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (decide.RevokeAgentSessions{ID: id, Actor: "ann", Reason: "it loops"}).Revoke(t.Context(), o.pool); err != nil {
		t.Fatal(err)
	}
	ends(revoked, "session_revoked")
	expired, _ := o.open(t, "agents", `{"run":"42","expires_in":1}`)
	ends(expired, "session_expired")
	if o.calls.Load() != 1 {
		t.Errorf("%d calls at the target", o.calls.Load())
	}
	unknown := openedSession{Token: "ogs_" + strings.Repeat("A", 43)}
	r := call(unknown)
	r.is(t, "an unknown token", 401, `"unauthorized"`)
	if strings.Contains(r.body, "session") {
		t.Errorf("an unknown token learns of sessions: %s", r.body)
	}
}

func textOf(t *testing.T, pool *pgxpool.Pool, sql string) (text string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}
