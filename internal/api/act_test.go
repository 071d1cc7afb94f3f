package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers/catalog"
)

// house is a database with things of two tenants about which a person decides.
type house struct {
	pool    *pgxpool.Pool
	service *control.Service
	server  *httptest.Server
	sources map[string]registry.Registered

	deliveries deliveries
}

// deliveries counts what is delivered, and answers as the receiver does.
type deliveries struct {
	n    int
	last *http.Request
}

func (d *deliveries) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.n, d.last = d.n+1, r
	_, _ = io.WriteString(w, `{"event":"0199a000-0000-7000-8000-000000000000","status":"recorded"}`)
}

// settings are the configuration of the two tenants.
func settings(t *testing.T) *config.Config {
	t.Helper()
	known, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "oncegate.yml")
	text := "targets:\n  billing: { kind: forward, url: \"https://billing.example\", sign: [env:SECRET], idempotent: true, key_window: 24h }\nsources:\n"
	for _, tenant := range []string{"acme", "blue"} {
		text += "  " + tenant + ": { provider: standard-webhooks, tenant: " + tenant + ", secrets: [env:SECRET], routes: [{ name: ship, types: [\"*\"], target: billing }] }\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := config.Load(config.Options{File: file, Catalog: known, Environ: []string{
		"DATABASE_URL=postgres://nowhere/none", "SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The tokens of the tests name their access: scope, and tenant if there is one.
func (h *house) authenticate(r *http.Request) (control.Access, error) {
	scope, tenant, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "@")
	return control.Access{Actor: "ann of " + scope, Scopes: control.Scopes{control.Scope(scope)}, Tenant: tenant}, nil
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{pool: inboxtest.Pool(t)}
	var sources []registry.Source
	for _, tenant := range []string{"acme", "blue"} {
		sources = append(sources, registry.Source{
			Name: tenant, Provider: "test", Class: "default", Tenant: tenant,
			Routes: []registry.Route{{Name: "bill", Target: "billing", Kind: "forward", Digest: []byte{1}}, {Name: "ship", Target: "stock", Kind: "forward", Digest: []byte{1}}},
		})
	}
	var err error
	if h.sources, err = registry.Register(t.Context(), h.pool, sources); err != nil {
		t.Fatal(err)
	}
	if h.service, err = control.NewService(control.Config{Pool: h.pool, Settings: settings(t), Deliver: &h.deliveries}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.service.Stop)
	handler, err := api.New(api.Config{Service: h.service, Logger: slog.New(slog.DiscardHandler), Authenticate: h.authenticate})
	if err != nil {
		t.Fatal(err)
	}
	h.server = httptest.NewServer(handler)
	t.Cleanup(h.server.Close)
	return h
}

func (h *house) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := h.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// effect makes an event of the tenant with an effect in the state.
func (h *house) effect(t *testing.T, tenant, route, state, reason string) (event, effect inbox.ID) {
	t.Helper()
	event, effect = inbox.NewID(time.Now()), inbox.NewID(time.Now())
	h.exec(t, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
		VALUES ($1, $2, $3, 'invoice.paid', sha256('x'), now(), 'ok', 'default', $1, 0, 0, 1, false, false)`, event, h.sources[tenant].ID, "evt_"+event.String())
	h.exec(t, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, attempts, send_started_at, next_at, finished_at)
		VALUES ($1, $2, $3, $4, 'key' || gen_random_uuid(), 1, nullif($5, ''), 2, now(), CASE WHEN $4 = 'pending' THEN now() END, CASE WHEN $4 = 'done' THEN now() END)`,
		effect, event, h.sources[tenant].Routes[route].ID, state, reason)
	return event, effect
}

func (h *house) state(t *testing.T, effect inbox.ID) (state string) {
	t.Helper()
	if err := h.pool.QueryRow(t.Context(), `SELECT state FROM effect WHERE id = $1`, effect).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// actors are those that the audit names for an action.
func (h *house) actors(t *testing.T, action string) (out []string) {
	t.Helper()
	if err := h.pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(DISTINCT actor), '{}') FROM audit WHERE action = $1`, action).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// answer is what the API says.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) code() control.Code {
	var document struct{ Code control.Code }
	_ = json.Unmarshal(a.body, &document)
	return document.Code
}

// into reads the answer of a request that must succeed.
func (a *answer) into(t *testing.T, value any) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, value); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// post makes a request with a token such as operate@acme, and headers in pairs.
func (h *house) post(ctx context.Context, token, path string, body any, headers ...string) (*answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.server.URL+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := h.server.Client().Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return &answer{response.StatusCode, response.Header, text}, err
}

func (h *house) do(t *testing.T, token, path string, body any, headers ...string) *answer {
	t.Helper()
	a, err := h.post(t.Context(), token, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type object = map[string]any

// expect fails unless the answer is a problem with the code.
func expect(t *testing.T, what string, a *answer, code control.Code) {
	t.Helper()
	if a.code() != code || a.status != code.Meaning().Status {
		t.Errorf("%s: %d %s, want %s", what, a.status, a.body, code)
	}
}

// changes reports whether an operation changes something: it is not a GET, but for the one question that holds an address.
func changes(d control.Description) bool {
	return d.Method != http.MethodGet && d.ID != control.CheckSuppression.ID
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// Every operation that changes something is refused to whoever may only read, and the greatest ones to operators too, before
// anything of the request is looked at.
func TestActsNeedTheirScope(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if !changes(d) {
			continue
		}
		path := placeholder.ReplaceAllString(d.Path, "1")
		tokens := []string{"read-metadata", "read-payload", ""}
		switch d.Scope {
		case control.Operate:
		case control.Admin:
			tokens = append(tokens, "operate")
		case control.ReadMetadata, control.ReadPayload:
			t.Errorf("%s changes something and needs only %s", d.ID, d.Scope)
		}
		for _, token := range tokens {
			expect(t, d.ID+" with "+token, h.do(t, token, path, object{"reason": "because"}), control.CodeForbidden)
		}
	}
}

func (h *house) dump(t *testing.T) (out string) {
	t.Helper()
	err := h.pool.QueryRow(t.Context(), `
SELECT (SELECT coalesce(string_agg(e::text, E'\n' ORDER BY e.id), '') FROM effect e) || (SELECT coalesce(string_agg(v::text, E'\n' ORDER BY v.id), '') FROM inbox_event v)
    || (SELECT coalesce(string_agg(s::text, E'\n' ORDER BY s.id), '') FROM stream s) || (SELECT count(*) FROM audit)
    || (SELECT coalesce(string_agg(r.state || r.id, E'\n' ORDER BY r.id), '') FROM replay r) || (SELECT count(*) FROM agent_session WHERE revoked_at IS NOT NULL)
    || (SELECT count(*) FROM suppression) || (SELECT count(*) FROM outbox) || (SELECT count(*) FROM conflict WHERE admitted_as IS NOT NULL)`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is another tenant's is not there for an operator of one, whatever it is and however it is named, and stays as it was.
func TestActsOnWhatIsAnothersTenants(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	event, dead := h.effect(t, "blue", "bill", "dead", "attempts_exhausted")
	_, unknown := h.effect(t, "blue", "bill", "indeterminate", "timeout")
	_, held := h.effect(t, "blue", "bill", "held", "sequence_key_missing")
	_, blocker := h.effect(t, "blue", "ship", "dead", "attempts_exhausted")
	var stream int64
	if err := h.pool.QueryRow(t.Context(), `INSERT INTO stream (route_id, key_hash, key_label, applied, blocked_by) VALUES ($1, sha256('k'), 'k', 1, $2) RETURNING id`,
		h.sources["blue"].Routes["ship"].ID, blocker).Scan(&stream); err != nil {
		t.Fatal(err)
	}
	h.exec(t, `UPDATE effect SET sequence_key_hash = sha256('k'), sequence_number = 2 WHERE id = $1`, blocker)
	conflict, session := inbox.NewID(time.Now()), inbox.NewID(time.Now())
	h.exec(t, `INSERT INTO conflict (id, event_id, source_id, sha256, payload_sha256, type, paths, deliveries, first_seen_at, last_seen_at, headers, body, id_unsigned, sequence_key, sequence_number)
		VALUES ($1, $2, $3, sha256('y'), sha256('y'), 'invoice.paid', '{}', 1, now(), now(), '{}', 'y', false, '', '')`, conflict, event, h.sources["blue"].ID)
	h.exec(t, `INSERT INTO agent_session (id, digest, source_id, credential, run, created_at, expires_at) VALUES ($1, sha256('s'), $2, 'engine', '42', now(), now() + interval '1 hour')`,
		session, h.sources["blue"].ID)
	var row int64
	if err := h.pool.QueryRow(t.Context(), `INSERT INTO outbox (source, event_id, type, payload, refused_at, refusal) VALUES ('blue', 'e', 't', '{}', now(), 'type') RETURNING id`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	var plan struct{ ID, Digest string }
	h.do(t, "operate@blue", "/replays", object{"ids": []inbox.ID{dead}}).into(t, &plan)
	var found struct{ Seen string }
	h.do(t, "operate@blue", "/dead-letters/discard", object{"filter": object{"source": "blue"}, "dry_run": true}).into(t, &found)
	var unknowns struct{ Seen string }
	h.do(t, "operate@blue", "/indeterminates/resolve", object{"filter": object{"source": "blue"}, "dry_run": true}).into(t, &unknowns)

	why := object{"reason": "because"}
	with := func(more object) object {
		out := object{"reason": "because"}
		maps.Copy(out, more)
		return out
	}
	type attempt struct {
		operation, path string
		body            object
		code            control.Code
	}
	attempts := []attempt{
		{"discard_dead_letters", "/dead-letters/discard", with(object{"ids": []inbox.ID{dead}}), control.CodeNotFound},
		{"discard_dead_letters", "/dead-letters/discard", with(object{"ids": []inbox.ID{event}}), control.CodeNotFound},
		{"discard_dead_letters", "/dead-letters/discard", with(object{"seen": found.Seen}), control.CodeNotFound},
		{"discard_dead_letters", "/dead-letters/discard", with(object{"filter": object{"tenant": "blue"}, "dry_run": true}), control.CodeForbidden},
		{"replay_dead_letters", "/dead-letters/replay", with(object{"ids": []inbox.ID{dead}}), control.CodeNotFound},
		{"resolve_effect", "/effects/" + unknown.String() + "/resolve", with(object{"as": "done"}), control.CodeNotFound},
		{"resolve_effects", "/indeterminates/resolve", with(object{"seen": unknowns.Seen, "as": "done"}), control.CodeNotFound},
		{"resolve_effects", "/indeterminates/resolve", with(object{"filter": object{"tenant": "blue"}, "dry_run": true}), control.CodeForbidden},
		{"apply_effect", "/effects/" + held.String() + "/apply", why, control.CodeNotFound},
		{"skip_effect", "/effects/" + held.String() + "/skip", why, control.CodeNotFound},
		{"skip_stream", fmt.Sprintf("/streams/%d/skip", stream), why, control.CodeNotFound},
		{"skip_stream", "/streams/blue%2Fship%2Fk/skip", why, control.CodeNotFound},
		{"unblock_stream", fmt.Sprintf("/streams/%d/unblock", stream), why, control.CodeNotFound},
		{"apply_stream", fmt.Sprintf("/streams/%d/apply", stream), why, control.CodeNotFound},
		{"admit_conflict", "/conflicts/" + conflict.String() + "/admit", why, control.CodeNotFound},
		{"reverify_refusals", "/refusals/reverify", with(object{"source": "blue"}), control.CodeNotFound},
		{"run_replay", "/replays/" + plan.ID + "/run", with(object{"digest": plan.Digest}), control.CodeNotFound},
		{"cancel_replay", "/replays/" + plan.ID + "/cancel", why, control.CodeNotFound},
		{"plan_replay", "/replays", with(object{"filter": object{"tenant": "blue"}}), control.CodeForbidden},
		{"erase_event", "/events/" + event.String() + "/erase", why, control.CodeNotFound},
		{"erase_event", "/events/blue%2Fevt_" + event.String() + "/erase", why, control.CodeNotFound},
		{"revoke_session", "/sessions/" + session.String() + "/revoke", why, control.CodeNotFound},
		{"revoke_sessions", "/sessions/revoke", with(object{"source": "blue"}), control.CodeNotFound},
		{"add_suppression", "/suppressions", with(object{"address": "ann@example.com"}), control.CodeForbidden},
		{"import_suppressions", "/suppressions/import", with(object{"addresses": []string{"ann@example.com"}}), control.CodeForbidden},
		{"remove_suppression", "/suppressions/remove", with(object{"address": "ann@example.com"}), control.CodeForbidden},
	}
	attempts = append(attempts,
		attempt{"discard_outbox", fmt.Sprintf("/outbox/%d/discard", row), why, control.CodeNotFound},
		attempt{"discard_route", "/routes/blue/bill/discard", object{"dry_run": true}, control.CodeNotFound},
		attempt{"move_route", "/routes/blue/bill/move", object{"dry_run": true, "to": "ship"}, control.CodeNotFound},
		attempt{"run_prune", "/prune", why, control.CodeForbidden},
		attempt{"test_source", "/sources/blue/test", why, control.CodeNotFound},
	)
	before := h.dump(t)
	tried := map[string]bool{}
	for _, a := range attempts {
		tried[a.operation] = true
		expect(t, a.operation, h.do(t, "admin@acme", a.path, a.body), a.code)
	}
	if after := h.dump(t); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
	// Tokens and logins have a test of their own.
	for _, operation := range control.Operations() {
		if d := operation.Describe(); changes(d) && !tried[d.ID] && !strings.HasPrefix(d.Path, "/tokens") && !strings.HasPrefix(d.Path, "/log") {
			t.Errorf("%s is not tried on what is another tenant's", d.ID)
		}
	}
	// A plan by ids has nothing of another tenant in it.
	var other struct {
		ID      string
		Summary struct{ Items, Unknown int }
	}
	h.do(t, "operate@acme", "/replays", object{"ids": []inbox.ID{dead, event}}).into(t, &other)
	if other.Summary.Items != 0 || other.Summary.Unknown != 2 {
		t.Errorf("a plan of another tenant's ids is %+v, want nothing but two unknown ids", other.Summary)
	}
	// Their own tenant's people may.
	h.do(t, "operate@blue", "/effects/"+unknown.String()+"/resolve", with(object{"as": "done"})).into(t, &struct{}{})
	if got := h.state(t, unknown); got != "done" {
		t.Errorf("the effect is %s, want done", got)
	}
	h.do(t, "operate@blue", fmt.Sprintf("/streams/%d/unblock", stream), why).into(t, &struct{}{})
}

// What a dry run found is what is discarded: nothing that came since, and nothing that has changed since.
func TestADecisionHoldsForWhatWasSeen(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, first := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	_, second := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	discard := func(body object) *answer { return h.do(t, "operate", "/dead-letters/discard", body) }
	expect(t, "a filter without a dry run", discard(object{"all": true, "reason": "r"}), control.CodeInvalid)
	expect(t, "nothing named", discard(object{"dry_run": true}), control.CodeInvalid)
	expect(t, "nonsense", discard(object{"seen": "AQID", "reason": "r"}), control.CodeInvalid)
	expect(t, "more than max", discard(object{"all": true, "dry_run": true, "max": 1}), control.CodeBound)
	var dry struct {
		Matched, Discarded, Left int
		Seen                     string
	}
	discard(object{"filter": object{"source": "acme"}, "dry_run": true}).into(t, &dry)
	if dry.Matched != 2 || dry.Left != 2 || dry.Discarded != 0 || h.state(t, first) != "dead" || len(h.actors(t, "effect.discard")) != 0 {
		t.Fatalf("the dry run gave %+v, want two and nothing changed", dry)
	}
	_, third := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	h.exec(t, `UPDATE effect SET revision = revision + 1 WHERE id = $1`, second)
	expect(t, "no reason", discard(object{"seen": dry.Seen}), control.CodeInvalid)
	var done struct {
		Discarded, Changed, Left int
		Seen                     string
	}
	discard(object{"seen": dry.Seen, "reason": "r"}).into(t, &done)
	if done.Discarded != 1 || done.Changed != 1 || done.Left != 0 || done.Seen != "" {
		t.Errorf("%+v, want one discarded and one left alone", done)
	}
	for effect, want := range map[inbox.ID]string{first: "skipped", second: "dead", third: "dead"} {
		if got := h.state(t, effect); got != want {
			t.Errorf("effect %s is %s, want %s", effect, got, want)
		}
	}
	if got := h.actors(t, "effect.discard"); len(got) != 1 || got[0] != "ann of operate" {
		t.Errorf("the audit names %q", got)
	}
}

// A long decision is taken some at a time: each answer says what is left.
func TestALongDecisionIsTakenInSteps(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	event, _ := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	h.exec(t, `INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, reason, item)
		SELECT gen_random_uuid(), $1, $2, 'indeterminate', 'item' || n, 1, 'timeout', n FROM generate_series(1, 1199) n`, event, h.sources["acme"].Routes["bill"].ID)
	var at struct {
		Matched, Resolved, Left int
		Seen                    string
	}
	h.do(t, "operate", "/indeterminates/resolve", object{"filter": object{"route": "bill"}, "dry_run": true, "max": 5000}).into(t, &at)
	if at.Matched != 1200 || at.Left != 1200 {
		t.Fatalf("%+v, want 1200", at)
	}
	total, requests := 0, 0
	for ; at.Left > 0; requests++ {
		h.do(t, "operate", "/indeterminates/resolve", object{"seen": at.Seen, "as": "done", "reason": "r"}).into(t, &at)
		total += at.Resolved
	}
	if total != 1200 || requests < 2 {
		t.Errorf("%d resolved in %d requests, want 1200 in two or more", total, requests)
	}
}

// A person decides about what they were shown, and is told if it is no longer that.
func TestIfMatch(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "indeterminate", "timeout")
	shown, err := inbox.NewLister(h.pool).Effect(t.Context(), effect)
	if err != nil {
		t.Fatal(err)
	}
	path, done := "/effects/"+effect.String()+"/resolve", object{"as": "done", "reason": "r"}
	h.exec(t, `UPDATE effect SET revision = revision + 1 WHERE id = $1`, effect)
	expect(t, "a stale tag", h.do(t, "operate", path, done, "If-Match", `"`+shown.Tag()+`"`), control.CodePrecondition)
	expect(t, "no tag", h.do(t, "operate", path, done, "If-Match", "stale"), control.CodeInvalid)
	expect(t, "an operation without tags", h.do(t, "operate", "/replays", object{"all": true}, "If-Match", `"x"`), control.CodeInvalid)
	if got := h.state(t, effect); got != "indeterminate" {
		t.Fatalf("the effect is %s: a decision about another state was carried out", got)
	}
	if shown, err = inbox.NewLister(h.pool).Effect(t.Context(), effect); err != nil {
		t.Fatal(err)
	}
	h.do(t, "operate", path, done, "If-Match", `"`+shown.Tag()+`"`).into(t, &struct{}{})
	expect(t, "the second decision", h.do(t, "operate", path, done), control.CodeConflict)
}

// A plan is run by the digest that it showed, by whoever may.
func TestReplaysArePlannedRunAndCancelled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, effect := h.effect(t, "acme", "bill", "dead", "attempts_exhausted")
	var plan struct {
		ID, State, Digest, Actor string
		Summary                  struct{ Items int }
	}
	h.do(t, "operate@acme", "/replays", object{"filter": object{"route": "bill"}}).into(t, &plan)
	if plan.State != "planned" || plan.Summary.Items != 1 || plan.Actor != "ann of operate" || h.state(t, effect) != "dead" {
		t.Fatalf("the plan is %+v", plan)
	}
	run := "/replays/" + plan.ID + "/run"
	expect(t, "no digest", h.do(t, "operate", run, object{"reason": "r"}), control.CodeInvalid)
	expect(t, "another digest", h.do(t, "operate", run, object{"reason": "r", "digest": "0000000000"}), control.CodeDigest)
	expect(t, "no reason", h.do(t, "operate", run, object{"digest": plan.Digest}), control.CodeInvalid)
	h.do(t, "operate@acme", run, object{"reason": "r", "digest": plan.Digest[:8]}).into(t, &plan)
	if plan.State != "running" {
		t.Errorf("the replay is %s, want running", plan.State)
	}
	h.do(t, "operate@acme", "/replays/"+plan.ID+"/cancel", object{"reason": "r"}).into(t, &plan)
	if plan.State != "cancelled" {
		t.Errorf("the replay is %s, want cancelled", plan.State)
	}
	expect(t, "cancelled twice", h.do(t, "operate", "/replays/"+plan.ID+"/cancel", object{"reason": "r"}), control.CodeConflict)
	for _, action := range []string{"replay.plan", "replay.run", "replay.cancel"} {
		if got := h.actors(t, action); len(got) != 1 || got[0] != "ann of operate" {
			t.Errorf("the audit names %q for %s", got, action)
		}
	}
}

// A test delivery is signed with the source's own secret and handed to this process's receiver; a dry run is not.
func TestATestDelivery(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var out control.TestDelivery
	h.do(t, "operate", "/sources/acme/test", object{"dry_run": true}).into(t, &out)
	if !out.Verified || h.deliveries.n != 0 || len(h.actors(t, "source.test")) != 0 {
		t.Errorf("the dry run gave %+v and %d deliveries", out, h.deliveries.n)
	}
	h.do(t, "operate@acme", "/sources/acme/test", object{}).into(t, &out)
	if out.Outcome != "recorded" || out.Status != http.StatusOK || h.deliveries.n != 1 || h.deliveries.last.URL.Path != "/in/acme" {
		t.Errorf("the test gave %+v and %d deliveries", out, h.deliveries.n)
	}
	if got := h.actors(t, "source.test"); len(got) != 1 || got[0] != "ann of operate" {
		t.Errorf("the audit names %q", got)
	}
	expect(t, "a source that is not configured", h.do(t, "operate", "/sources/gone/test", object{}), control.CodeNotFound)
}

// What waits for a route that is gone moves or is discarded; what another dry run found is not of it.
func TestARouteIsCleared(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, waiting := h.effect(t, "acme", "bill", "pending", "")
	_, other := h.effect(t, "acme", "ship", "dead", "attempts_exhausted")
	h.exec(t, `UPDATE route SET updated_at = now() - interval '2 hours' WHERE name = 'bill'`)
	var dry, seen struct {
		Matched, Cleared int
		Seen             string
	}
	h.do(t, "operate@acme", "/routes/acme/bill/discard", object{"dry_run": true}).into(t, &dry)
	if dry.Matched != 1 || h.state(t, waiting) != "pending" {
		t.Fatalf("the dry run found %+v", dry)
	}
	h.do(t, "operate", "/dead-letters/discard", object{"ids": []inbox.ID{other}, "dry_run": true}).into(t, &seen)
	expect(t, "what is of another route", h.do(t, "operate", "/routes/acme/bill/discard", object{"seen": seen.Seen, "reason": "r"}), control.CodeInvalid)
	expect(t, "an unknown route to move to", h.do(t, "operate", "/routes/acme/bill/move", object{"seen": dry.Seen, "reason": "r", "to": "nowhere"}), control.CodeInvalid)
	h.do(t, "operate@acme", "/routes/acme/bill/discard", object{"seen": dry.Seen, "reason": "r"}).into(t, &dry)
	if got := h.state(t, waiting); got != "skipped" || dry.Cleared != 1 {
		t.Errorf("the effect is %s, and %+v", got, dry)
	}
}
