package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/control"
)

// described is the served description, by which requests and answers are checked.
type described struct {
	document *openapi3.T
	router   routers.Router
	schemas  *jsonschema.Compiler
}

func readDescription(t *testing.T, h *house) described {
	t.Helper()
	response := h.request(t, http.MethodGet, "/openapi.json", "", nil)
	document, err := openapi3.NewLoader().LoadFromData(response.body)
	if err != nil {
		t.Fatal(err)
	}
	// An answer has what is described and nothing else: its schemas are closed here, and open for whoever reads them.
	for _, schema := range document.Components.Schemas {
		if schema.Value.Properties != nil && schema.Value.AdditionalProperties.Schema == nil {
			schema.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
		}
	}
	router, err := legacy.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	schemas := jsonschema.NewCompiler()
	schemas.AssertFormat()
	if err := schemas.AddResource("openapi.json", value); err != nil {
		t.Fatal(err)
	}
	return described{document, router, schemas}
}

// request asks the API; body is nil or becomes JSON.
func (h *house) request(t *testing.T, method, path, token string, body any, headers ...string) *answer {
	t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, h.server.URL+api.Prefix+path, content)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := h.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &answer{status: response.StatusCode, header: response.Header, body: text}
}

// check holds a request and its answer against the description.
func (d described) check(t *testing.T, method, path string, got *answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, api.Prefix+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	route, parameters, err := d.router.FindRoute(r)
	if err != nil {
		t.Errorf("%s %s is not described: %v", method, path, err)
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: func(context.Context, *openapi3filter.AuthenticationInput) error { return nil },
		},
	}
	if method == http.MethodGet {
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("%s %s: the request is not as described: %v", method, path, err)
		}
	}
	shape := input.Route.Operation.Responses.Status(got.status)
	at := "#/paths/" + escapePointer(input.Route.Path) + "/" + strings.ToLower(method) + "/responses/200/content/application~1json/schema"
	if shape == nil {
		at = "#/components/schemas/ProblemDocument"
	} else if shape.Value.Content.Get("application/json") == nil {
		return // bytes
	}
	schema, err := d.schemas.Compile("openapi.json" + at)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(got.body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s %s: the answer is not as described: %v in %s", method, path, err, got.body)
	}
}

func escapePointer(text string) string {
	return url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(text, "~", "~0"), "/", "~1"))
}

// fill gives the house one of everything that is listed.
func (h *house) fill(t *testing.T) (ids map[string]string) {
	t.Helper()
	ids = map[string]string{}
	for _, state := range []string{"done", "indeterminate", "dead"} {
		event, effect := h.effect(t, "acme", "bill", state, map[string]string{"dead": "attempts_exhausted", "indeterminate": "timeout"}[state])
		ids["event"], ids["effect"] = event.String(), effect.String()
		h.exec(t, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, reason, code, excerpt)
			VALUES ($1, 1, 1, 'initial', 'node', now() - interval '1 s', now(), 'dead', 'status_5xx', '500', 'no "><script> here')`, effect)
	}
	body := []byte(`{"amount":1,"card_number":"4242"}`)
	h.exec(t, `CREATE TABLE body_of_test PARTITION OF inbox_body FOR VALUES IN ('default')`)
	h.exec(t, `INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, ids["event"], body)
	h.exec(t, `UPDATE inbox_event SET body_length = $2 WHERE id = $1`, ids["event"], len(body))
	conflict := inbox.NewID(time.Now())
	h.exec(t, `INSERT INTO conflict (id, event_id, source_id, sha256, payload_sha256, type, paths, deliveries, first_seen_at, last_seen_at, headers, body, id_unsigned, sequence_key, sequence_number)
		SELECT $1, id, source_id, sha256('y'), sha256('y'), type, '{amount}', 2, now(), now(), '{}', '{"amount":2}', false, '', '' FROM inbox_event WHERE id = $2`, conflict, ids["event"])
	ids["conflict"] = conflict.String()
	refusal := inbox.NewID(time.Now())
	h.exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, headers, body, size)
		VALUES ($1, $2, now(), 'mismatch', 'other secret', true, 'POST', '/in/acme', '203.0.113.9', '{"X-Signature":["abc"]}', 'hi', 2)`, refusal, h.sources["acme"].ID)
	ids["refusal"] = refusal.String()
	var stream int64
	if err := h.pool.QueryRow(t.Context(), `INSERT INTO stream (route_id, key_hash, key_label, applied, blocked_by) VALUES ($1, sha256('k'), 'cus_1', 1, $2) RETURNING id`,
		h.sources["acme"].Routes["bill"].ID, ids["effect"]).Scan(&stream); err != nil {
		t.Fatal(err)
	}
	h.exec(t, `UPDATE effect SET sequence_key_hash = sha256('k'), sequence_number = 2 WHERE id = $1`, ids["effect"])
	ids["stream"] = jsonText(stream)
	_, held := h.effect(t, "acme", "bill", "held", "sequence_number_missing")
	h.exec(t, `UPDATE effect SET sequence_key_hash = sha256('k') WHERE id = $1`, held)
	h.exec(t, `INSERT INTO agent_session (id, digest, source_id, credential, run, created_at, expires_at) VALUES ($1, sha256('s'), $2, 'engine', '42', now(), now() + interval '1 hour')`,
		inbox.NewID(time.Now()), h.sources["acme"].ID)
	h.exec(t, `INSERT INTO outbox (source, event_id, type, payload, created_at) VALUES ('acme', 'o-1', 'paid', '{}', now())`)
	h.exec(t, `INSERT INTO prune_run (id, ended_at, complete, removed, partitions, kept, left_behind, contended, include)
		VALUES ($1, now(), true, '{"effect": 5}', '{2026-01-01}', 1, 2, '{}', '{}')`, inbox.NewID(time.Now()))
	h.exec(t, `INSERT INTO audit (id, at, actor, action, object, reason) VALUES ($1, now(), 'ann', 'effect.discard', $2, 'why')`, inbox.NewID(time.Now()), "effect/"+ids["effect"])
	h.exec(t, `INSERT INTO notification (kind, name, count, more, since, text, opened_at, gone_at, told_at, told_count)
		VALUES ('failing', 'psp', 50, true, now(), 'last answer 500', now(), now(), now(), 5)`)
	h.exec(t, `INSERT INTO retention_class (name, body, tombstone, effects, refusals, audit) VALUES ('default', '30d', '90d', '30d', '7d', '365d') ON CONFLICT DO NOTHING`)
	return ids
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) //nolint:errchkjson // a number
	return string(text)
}

// The answers of a database that holds something of everything are as described, for whoever sees all of it, for whoever sees no
// payloads, and for a tenant; and so is what is refused.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ids := h.fill(t)
	description := readDescription(t, h)
	if wrong, err := description.schemas.Compile("openapi.json#/components/schemas/EventRowPage"); err != nil || wrong.Validate(map[string]any{"data": []any{}, "has_more": false, "total": 7.0}) == nil {
		t.Fatalf("a member that is not described passes: %v", err)
	}
	plan := h.request(t, http.MethodPost, "/replays", "admin", map[string]any{"ids": []string{ids["effect"]}, "reason": "try again"})
	var replay struct{ ID string }
	if err := json.Unmarshal(plan.body, &replay); err != nil || replay.ID == "" {
		t.Fatalf("no replay was planned: %s", plan.body)
	}
	description.check(t, http.MethodPost, "/replays", plan)
	h.exec(t, `INSERT INTO suppression (id, address, digest, target, reason, created_at) VALUES ($1, 'a@example.com', sha256('a'), '', 'complaint', now())`, inbox.NewID(time.Now()))
	named := map[string]string{
		"/events/{ref}": ids["event"], "/effects/{id}": ids["effect"], "/dead-letters/{id}": ids["effect"], "/conflicts/{id}": ids["conflict"],
		"/refusals/{id}": ids["refusal"], "/streams/{ref}": ids["stream"], "/replays/{id}": replay.ID, "/sources/{name}": "acme", "/outbox/{id}": "1",
		"/operations/{source}/{credential}/{key}": "",
	}
	for _, token := range []string{"admin", "read-metadata", "read-payload@acme", "read-metadata@blue"} {
		for _, operation := range control.Operations() {
			d := operation.Describe()
			if d.Method != http.MethodGet {
				continue
			}
			path := d.Path
			for shape, id := range named {
				if rest, ok := strings.CutPrefix(path, shape); ok && id != "" {
					path = shape[:strings.LastIndex(shape, "/")+1] + url.PathEscape(id) + rest
				}
			}
			path = inBraces.ReplaceAllString(path, "nothing")
			got := h.request(t, http.MethodGet, path, token, nil)
			description.check(t, http.MethodGet, path, got)
			if got.status >= 500 {
				t.Errorf("%s %s as %s: %d %s", d.Method, path, token, got.status, got.body)
			}
			var page struct{ Data []json.RawMessage }
			_ = json.Unmarshal(got.body, &page)
			if token == "admin" && strings.HasPrefix(d.ID, "list_") && len(page.Data) == 0 && !emptyLists[d.ID] {
				t.Errorf("%s is empty: nothing of it was checked: %d %s", d.ID, got.status, got.body)
			}
		}
	}
}

// emptyLists are those of which the house holds nothing.
var emptyLists = map[string]bool{"list_effect_items": true, "list_nodes": true, "list_keys": true, "list_providers": true, "list_tokens": true, "list_logins": true}

// A payload that may not be seen is hidden, and says so; nothing of it is anywhere in the answer.
func TestHiddenIsNotEmpty(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ids := h.fill(t)
	for path, secret := range map[string]string{
		"/effects/" + ids["effect"]: "<script>", "/effects/" + ids["effect"] + "/attempts": "<script>", "/dead-letters": "<script>",
		"/refusals/" + ids["refusal"]: "abc", "/streams/" + ids["stream"]: "cus_1", "/streams": "cus_1", "/undecided-effects": "cus_1",
	} {
		shown, hidden := h.request(t, http.MethodGet, path, "read-payload", nil), h.request(t, http.MethodGet, path, "read-metadata", nil)
		var have any
		if json.Unmarshal(shown.body, &have) != nil || !strings.Contains(jsonPlain(have), secret) || strings.Contains(string(shown.body), "payload_hidden") {
			t.Errorf("%s with read-payload lacks %q: %s", path, secret, shown.body)
		}
		if json.Unmarshal(hidden.body, &have) != nil || strings.Contains(jsonPlain(have), secret) || !strings.Contains(string(hidden.body), `"payload_hidden":true`) {
			t.Errorf("%s without read-payload: %s", path, hidden.body)
		}
	}
	for _, path := range []string{"/events/" + ids["event"] + "/body", "/conflicts/" + ids["conflict"] + "/body", "/refusals/" + ids["refusal"] + "/body", "/outbox/1/payload"} {
		if got := h.request(t, http.MethodGet, path, "read-metadata", nil); got.status != http.StatusForbidden {
			t.Errorf("%s without read-payload: %d %s", path, got.status, got.body)
		}
		got := h.request(t, http.MethodGet, path, "read-payload", nil)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
		}
	}
}

// jsonPlain writes a value without what JSON escapes.
func jsonPlain(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // it was JSON before
	return b.String()
}

func TestAnAnswerThatIsKnownIsNotSentAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ids := h.fill(t)
	path := "/effects/" + ids["effect"]
	first := h.request(t, http.MethodGet, path, "read-metadata", nil)
	tag := first.header.Get("ETag")
	again := h.request(t, http.MethodGet, path, "read-metadata", nil, "If-None-Match", tag)
	if tag == "" || again.status != http.StatusNotModified || len(again.body) != 0 {
		t.Errorf("with the ETag %s: %d %s", tag, again.status, again.body)
	}
	if got := h.request(t, http.MethodGet, path, "read-payload", nil, "If-None-Match", tag); got.status != http.StatusOK {
		t.Errorf("whoever sees more is told %d", got.status)
	}
	h.exec(t, `UPDATE effect SET attempts = attempts + 1 WHERE id = $1`, ids["effect"])
	if got := h.request(t, http.MethodGet, path, "read-metadata", nil, "If-None-Match", tag); got.status != http.StatusOK {
		t.Errorf("once it has changed: %d", got.status)
	}
}
