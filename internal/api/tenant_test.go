package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/access/accesstest"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog"
)

// tenantMark is in everything of the tenant acme, and in nothing of anybody else.
const tenantMark = "acmemark"

// tenantConfiguration says whose the credentials of the source are.
const tenantConfiguration = `
targets: { sink: { kind: noop } }
sources:
  acmemark:
    provider: operation
    tenant: acme
    credentials: { engine: { secrets: [env:SECRET] } }
    sessions: { longest: 1h }
    routes: [{ name: all, types: ["*"], target: sink, order: { mode: contiguous, key: body.id, number: body.n } }]
  others: { provider: stripe, tenant: other, secrets: [env:SECRET] }
`

// things are one of each kind of thing, all of the tenant acme.
type things struct {
	source, credential, key                                              string
	event, dead, unknown, held, conflict, refusal, replay, call, session inbox.ID
	stream, outbox                                                       int64
	token, login                                                         inbox.ID
}

// tenantServer is a server of the API with real tokens.
type tenantServer struct {
	*httptest.Server
	pool   *pgxpool.Pool
	source *inbox.Source
	made   int
}

func newTenantServer(t *testing.T) *tenantServer {
	t.Helper()
	address, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, address, schema, session.PoolAdmin, 8)
	known, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(config.Options{File: "test.yml", Content: []byte(tenantConfiguration), Catalog: known, Environ: []string{"DATABASE_URL=" + address, "ONCEGATE_SCHEMA=" + schema, "SECRET=whsec_test"}})
	if err != nil {
		t.Fatal(err)
	}
	service, err := control.NewService(control.Config{Pool: pool, Settings: settings, Catalog: known})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := api.New(api.Config{Service: service, Authenticate: accesstest.New(t, pool).Authenticate, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &tenantServer{Server: httptest.NewServer(handler), pool: pool, source: inboxtest.Source(t, pool, tenantMark)}
	t.Cleanup(s.Close)
	inboxtest.Source(t, pool, "others")
	s.exec(t, `UPDATE source SET tenant = CASE name WHEN 'others' THEN 'other' ELSE 'acme' END`)
	return s
}

func (s *tenantServer) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
}

// things makes one of each kind of thing.
func (s *tenantServer) things(t *testing.T) things {
	t.Helper()
	s.made++
	now := time.Now()
	id := func() inbox.ID { return inbox.NewID(now) }
	mark := fmt.Sprintf("%s-%d", tenantMark, s.made)
	th := things{source: tenantMark, credential: "engine", key: mark, event: id(), dead: id(), unknown: id(), held: id(), conflict: id(), refusal: id(), replay: id(), call: id(), session: id()}
	body := []byte(`{"id":"` + mark + `"}`)
	route := s.source.Routes[0].ID
	for event, key := range map[inbox.ID]string{th.event: mark, th.call: th.credential + ":" + mark} {
		body := []byte(`{"id":"` + key + `"}`)
		s.exec(t, `INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{}', $2)`, event, body)
		s.exec(t, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, canonical_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay, tenant)
			VALUES ($1, $2, $3, 'test.happened', sha256($4), sha256($4), now(), 'ok', 'default', $1, 0, 0, $5, false, false, 'acme')`, event, s.source.ID, key, body, len(body))
	}
	for effect, state := range map[inbox.ID]string{th.dead: "dead", th.unknown: "indeterminate", th.held: "held"} {
		s.exec(t, `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, reason, route_version, attempts, sequence_key_hash, sequence_number, unknown_since)
			VALUES ($1, $2, $3, $7::int, $4, $5, CASE $4::text WHEN 'held' THEN 'sequence_number_missing' ELSE 'attempts_exhausted' END, 1, 1, sha256($6),
				CASE $4::text WHEN 'held' THEN NULL ELSE $7::int END, CASE $4::text WHEN 'indeterminate' THEN now() END)`,
			effect, th.event, route, state, mark+"/"+state, []byte(mark), map[string]int{"dead": 0, "indeterminate": 1, "held": 2}[state])
		if state == "held" {
			continue
		}
		s.exec(t, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code, excerpt)
			VALUES ($1, 1, 1, 'initial', 'n', now(), now(), $2, '500', $3)`, effect, state, mark)
	}
	s.exec(t, `INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned, first_seen_at, last_seen_at, headers, body)
		VALUES ($1, $2, $3, sha256($4), sha256($4), '{$.x}', 'test.happened', '', '', false, now(), now(), '{}', $4)`, th.conflict, th.event, s.source.ID, []byte(`{"x":"`+mark+`"}`))
	s.exec(t, `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, headers, body, size)
		VALUES ($1, $2, now(), 'mismatch', $3, true, 'POST', '/', '192.0.2.1', '{}', $4, 2)`, th.refusal, s.source.ID, mark, body)
	s.exec(t, `INSERT INTO replay (id, state, scope, actor, reason, digest, expires_at) VALUES ($1, 'planned', '{"tenant":"acme"}', $2, 'r', sha256('x'), now() + interval '1 hour')`, th.replay, mark)
	s.exec(t, `INSERT INTO replay_item (replay_id, position, effect_id, event_id, effect_version, action) VALUES ($1, 1, $2, $3, 1, 'replay')`, th.replay, th.dead, th.event)
	for _, one := range []struct {
		sql  string
		into *int64
		args []any
	}{
		{`INSERT INTO stream (route_id, key_hash, key_label, blocked_by) VALUES ($1, sha256($2), $3, $4) RETURNING id`, &th.stream, []any{route, []byte(mark), mark, th.dead}},
		{`INSERT INTO outbox (source, event_id, type, payload) VALUES ($1, $2, 'test.happened', $3) RETURNING id`, &th.outbox, []any{tenantMark, mark, body}},
	} {
		if err := s.pool.QueryRow(t.Context(), one.sql, one.args...).Scan(one.into); err != nil {
			t.Fatalf("%v in %s", err, one.sql)
		}
	}
	s.exec(t, `INSERT INTO agent_session (id, digest, source_id, credential, run, created_at, expires_at)
		VALUES ($1, sha256($2), $3, 'engine', $4, now(), now() + interval '1 hour')`, th.session, []byte(mark), s.source.ID, mark)
	_, token, err := tokens.NewStore(s.pool, nil).Create(t.Context(), tokens.New{Name: mark, Scopes: []string{"admin"}, Tenant: "acme", Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	_, login, err := logins.NewStore(logins.Config{Pool: s.pool}).Begin(t.Context(), logins.Opening{Grant: logins.Grant{Actor: mark, Scopes: []string{"admin"}, Tenant: "acme"}, Method: logins.ByLink})
	if err != nil {
		t.Fatal(err)
	}
	th.token, th.login = token.ID, login.ID
	return th
}

// request is what an operation is asked about a thing: the fields of its request by their JSON names.
type request map[string]any

// examples gives, for each operation that takes an id, a request that names a thing of the tenant acme.
// An operation that is new and takes one has to be added: the test says so.
func examples(th *things) map[string]request {
	return map[string]request{
		"show_event":             {"ref": th.event},
		"read_event_body":        {"ref": th.event},
		"show_payload":           {"kind": "event", "id": th.event},
		"reveal_payload":         {"kind": "conflict", "id": th.conflict},
		"compare_payloads":       {"first": th.event, "second": th.call},
		"find_reference":         {"kind": "effect", "ref": th.dead},
		"show_effect":            {"id": th.dead},
		"list_attempts":          {"id": th.dead},
		"list_effect_items":      {"id": th.dead},
		"show_dead_letter":       {"id": th.dead},
		"show_conflict":          {"id": th.conflict},
		"read_conflict_body":     {"id": th.conflict},
		"list_conflict_changes":  {"id": th.conflict},
		"show_refusal":           {"id": th.refusal},
		"read_refusal_body":      {"id": th.refusal},
		"show_replay":            {"id": th.replay},
		"list_replay_items":      {"id": th.replay},
		"show_stream":            {"ref": fmt.Sprint(th.stream)},
		"show_operation":         {"source": th.source, "credential": th.credential, "key": th.key},
		"show_source":            {"name": th.source},
		"read_outbox_payload":    {"id": th.outbox},
		"revoke_token":           {"ref": th.token, "reason": "r"},
		"revoke_login":           {"id": th.login, "reason": "r"},
		"discard_dead_letters":   {"ids": []inbox.ID{th.dead}, "reason": "r"},
		"replay_dead_letters":    {"ids": []inbox.ID{th.dead}, "reason": "r"},
		"resolve_effect":         {"id": th.unknown, "as": "done", "reason": "r"},
		"cancel_list":            {"id": th.unknown, "reason": "r"},
		"resolve_effects":        {"ids": []inbox.ID{th.unknown}, "dry_run": true},
		"apply_effect":           {"id": th.held, "reason": "r"},
		"skip_effect":            {"id": th.held, "reason": "r"},
		"skip_stream":            {"ref": fmt.Sprint(th.stream), "reason": "r"},
		"unblock_stream":         {"ref": fmt.Sprint(th.stream), "reason": "r"},
		"apply_stream":           {"ref": fmt.Sprint(th.stream), "reason": "r"},
		"admit_conflict":         {"id": th.conflict, "reason": "r"},
		"dismiss_conflicts":      {"ids": []inbox.ID{th.conflict}, "reason": "r"},
		"plan_replay":            {"ids": []inbox.ID{th.event}, "reason": "r"},
		"run_replay":             {"id": th.replay, "digest": "2d711642", "reason": "r"},
		"cancel_replay":          {"id": th.replay, "reason": "r"},
		"erase_events":           {"label": "customer=x", "dry_run": true},
		"erase_event":            {"ref": th.event, "reason": "r"},
		"erase_refusals":         {"source": th.source, "ids": []inbox.ID{th.refusal}, "reason": "r"},
		"revoke_session":         {"id": th.session, "reason": "r"},
		"discard_outbox":         {"id": th.outbox, "reason": "r"},
		"discard_route":          {"source": th.source, "route": "all", "dry_run": true},
		"move_route":             {"source": th.source, "route": "all", "to": "other", "dry_run": true},
		"test_source":            {"source": th.source, "dry_run": true},
		"show_target":            {"name": "sink"},
		"show_definition":        {"name": th.source},
		"update_source":          {"name": th.source, "change": object{}, "reason": "r"},
		"disable_source":         {"name": th.source, "reason": "r"},
		"enable_source":          {"name": th.source, "reason": "r"},
		"pause_source":           {"name": th.source, "reason": "r"},
		"resume_source":          {"name": th.source, "reason": "r"},
		"pause_route":            {"source": th.source, "route": "all", "reason": "r"},
		"resume_route":           {"source": th.source, "route": "all", "reason": "r"},
		"pause_target":           {"name": "sink", "reason": "r"},
		"test_target":            {"name": "sink", "reason": "r"},
		"resume_target":          {"name": "sink", "reason": "r"},
		"test_notifications":     {"reason": "r"},
		"list_conflicts":         {"event": th.event},
		"list_undecided_effects": {"stream": th.stream},
	}
}

// public are operations whose things belong to nobody, and why.
var public = map[string]string{
	"show_provider": "the catalogue is the same everywhere",
}

// idFields are the fields of requests that name a thing.
var idFields = []string{"id", "ids", "ref", "refs", "event", "events", "effect", "effects", "stream", "replay", "conflict", "refusal", "list", "parent"}

// takesID reports whether an operation is asked about a thing.
func takesID(d *control.Description) bool {
	if strings.Contains(d.Path, "{") {
		return true
	}
	return slices.ContainsFunc(reflect.VisibleFields(d.Request), func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return slices.Contains(idFields, name)
	})
}

// ask asks an operation as whoever has the token.
func (s *tenantServer) ask(t *testing.T, token string, d *control.Description, r request) (int, string) {
	t.Helper()
	status, text, _ := s.send(t, token, d, r, nil)
	return status, text
}

// send asks an operation with headers, and also returns those of the answer.
func (s *tenantServer) send(t *testing.T, token string, d *control.Description, r request, headers http.Header) (int, string, http.Header) {
	t.Helper()
	path, query, body := d.Path, url.Values{}, map[string]any{}
	for name, value := range r {
		text := fmt.Sprint(value)
		switch {
		case strings.Contains(path, "{"+name+"}"):
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
		case d.Method == http.MethodGet || d.Method == http.MethodDelete:
			query.Set(name, text)
		default:
			body[name] = value
		}
	}
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	address := s.URL + api.Prefix + path + "?" + query.Encode()
	asked, err := http.NewRequestWithContext(t.Context(), d.Method, address, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(asked.Header, headers)
	if token != "" {
		asked.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.Client().Do(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text.String(), answer.Header
}

// isEmptyPage reports whether an answer is a list without rows.
func isEmptyPage(text string) bool {
	var page read.Page[any]
	return json.Unmarshal([]byte(text), &page) == nil && page.Data != nil && len(page.Data) == 0
}

// Another tenant's token finds nothing of what it names by its id, sees nothing of it in any list, and changes
// nothing, whatever scopes it has.
func TestAnotherTenantFindsNothing(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	stranger := accesstest.Token(t, s.pool, "other", control.Admin)
	owner := accesstest.Token(t, s.pool, "acme", control.Admin)
	th := s.things(t)
	known := examples(&th)
	before := inboxtest.Tables(t, s.pool)
	type asked struct {
		d      control.Description
		status int
	}
	strangers := map[string]asked{}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		example, ok := known[d.ID]
		if _, isPublic := public[d.ID]; isPublic {
			continue
		}
		if !ok && takesID(&d) {
			t.Errorf("operation %s takes an id: add an example to this test, which shows that another tenant does not reach it", d.ID)
			continue
		}
		if !ok && d.Method != http.MethodGet {
			continue // it names nothing, and makes something new
		}
		status, text := s.ask(t, stranger, &d, example)
		if strings.Contains(text, tenantMark) && !slices.Contains([]string{"show_source", "show_operation", "discard_route", "move_route", "test_source", "erase_refusals", "pause_source", "resume_source", "pause_route", "resume_route"}, d.ID) { // which are named by it
			t.Errorf("%s shows another tenant %s", d.ID, text)
		}
		switch {
		case ok && status == http.StatusNotFound, status == http.StatusForbidden:
		case d.ID == "plan_replay" && status == http.StatusOK && strings.Contains(text, `"items":0,"to_do":0,"unknown":1`): // a plan of nothing
		case d.ID == "resolve_effects" && status == http.StatusOK && strings.Contains(text, `"matched":0,"unmatched":1`): // as for an id that does not exist
		case d.ID == "erase_events" && status == http.StatusOK && strings.Contains(text, `"matched":0`):
		case strings.HasPrefix(d.ID, "list_") && status == http.StatusOK && (isEmptyPage(text) || !ok):
		case !ok && status == http.StatusOK:
		case d.ID == "show_target" && status == http.StatusOK && strings.Contains(text, `"routes":["others/all"]`): // of all tenants, with the stranger's own routes
		case d.ID == "list_audit" && status == http.StatusNotFound: // it asks for the event or the effect
		case d.ID == "compare_run" && status == http.StatusBadRequest: // it needs a run or a label; TestARunIsComparedOverTheAPI asks as another tenant
		case d.ID == "list_sessions" && status == http.StatusBadRequest: // only the configuration says whose they are
		default:
			t.Errorf("%s answers another tenant %d %s", d.ID, status, text)
		}
		strangers[d.ID] = asked{d, status}
		delete(known, d.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		t.Errorf("there is no operation %s, of which this test has an example", id)
	}
	after := inboxtest.Tables(t, s.pool)
	changed := slices.DeleteFunc(inboxtest.Changed(before, after), func(table string) bool {
		return slices.Contains([]string{"access_token", "replay", "audit"}, table) // its last use, and its own plan of nothing
	})
	if len(changed) > 0 {
		t.Errorf("another tenant changed %v", changed)
	}
	var foreign int
	err := s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM audit WHERE actor LIKE 'token:test-%' AND action <> 'replay.plan') +
		(SELECT count(*) FROM replay WHERE actor LIKE 'token:test-%' AND scope->>'tenant' IS DISTINCT FROM 'other')`).Scan(&foreign)
	if err != nil || foreign != 0 {
		t.Errorf("another tenant left %d entries in the audit and plans that are not of its own, %v", foreign, err)
	}
	// The examples are no misspellings: the tenant's own token reaches each of them, but for what belongs to the whole
	// installation, which is refused to both.
	for id, one := range strangers {
		own := s.things(t)
		example, ok := examples(&own)[id]
		status, text := s.ask(t, owner, &one.d, example)
		switch {
		case status == http.StatusForbidden && one.status == http.StatusForbidden:
		case ok && (status == http.StatusNotFound || status == http.StatusForbidden || status >= 500 || isEmptyPage(text) && id != "list_effect_items"):
			t.Errorf("%s answers the tenant itself %d %s", id, status, text)
		}
	}
}

// A decision about many things takes what a dry run has seen. Another tenant's dry run sees nothing, and what the tenant's
// own has seen is worth nothing in other hands.
func TestAnotherTenantCannotUseWhatADryRunSaw(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	th := s.things(t)
	stranger, owner := accesstest.Token(t, s.pool, "other", control.Admin), accesstest.Token(t, s.pool, "acme", control.Admin)
	s.exec(t, `INSERT INTO event_label (event_id, name, value) VALUES ($1, 'customer', 'x')`, th.event)
	decided := 0
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if _, ok := d.Request.FieldByName("Seen"); !ok || strings.Contains(d.Path, "{") { // those are asked about one thing, by its name
			continue
		}
		decided++
		dry := request{"all": true, "dry_run": true}
		if d.ID == "erase_events" { // it has no all
			dry = request{"label": "customer=x", "dry_run": true}
		}
		type seen struct {
			Matched int
			Seen    string
		}
		look := func(token string) (out seen) {
			t.Helper()
			status, text := s.ask(t, token, &d, dry)
			if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK || token == stranger && strings.Contains(text, tenantMark) {
				t.Errorf("%s answers a dry run %d %s, %v", d.ID, status, text, err)
			}
			return out
		}
		own := look(owner)
		if got := look(stranger); own.Matched == 0 || own.Seen == "" || got.Matched != 0 {
			t.Errorf("%s: the tenant sees %d, another one %d", d.ID, own.Matched, got.Matched)
		}
		before := inboxtest.Tables(t, s.pool)
		if status, _ := s.ask(t, stranger, &d, request{"seen": own.Seen, "reason": "r", "as": "done"}); status != http.StatusNotFound {
			if status, text := s.ask(t, stranger, &d, request{"seen": own.Seen, "reason": "r"}); status != http.StatusNotFound {
				t.Errorf("%s answers another tenant that hands back what was seen %d %s", d.ID, status, text)
			}
		}
		changed := slices.DeleteFunc(inboxtest.Changed(before, inboxtest.Tables(t, s.pool)), func(table string) bool { return table == "access_token" })
		if len(changed) > 0 {
			t.Errorf("%s: another tenant changed %v", d.ID, changed)
		}
	}
	if decided < 2 || th.event.IsZero() {
		t.Errorf("only %d operations take what a dry run has seen", decided)
	}
}

// Without a token, with one that does not exist, and with one of a lesser scope every operation is refused before anything
// of the request is looked at.
func TestEveryOperationNeedsItsToken(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	th := s.things(t)
	known := examples(&th)
	lesser := map[control.Scope]string{
		control.ReadPayload: accesstest.Token(t, s.pool, "acme", control.Operate), control.Operate: accesstest.Token(t, s.pool, "acme", control.ReadPayload),
		control.Admin: accesstest.Token(t, s.pool, "acme", control.Operate, control.ReadPayload),
	}
	before := inboxtest.Tables(t, s.pool)
	for _, operation := range control.Operations() {
		d := operation.Describe()
		for _, token := range []string{"", "og_wrong"} {
			if status, text := s.ask(t, token, &d, known[d.ID]); status != http.StatusUnauthorized || strings.Contains(text, tenantMark) {
				t.Errorf("%s answers the token %q %d %s", d.ID, token, status, text)
			}
		}
		if token, ok := lesser[d.Scope]; ok {
			if status, text := s.ask(t, token, &d, known[d.ID]); status != http.StatusForbidden || strings.Contains(text, tenantMark) {
				t.Errorf("%s answers a lesser token %d %s", d.ID, status, text)
			}
		}
	}
	changed := slices.DeleteFunc(inboxtest.Changed(before, inboxtest.Tables(t, s.pool)), func(table string) bool { return table == "access_token" })
	if len(changed) > 0 {
		t.Errorf("who may not changed %v", changed)
	}
}

// A text that PostgreSQL cannot store is refused by the name of its parameter.
func TestNULBytesAreRefusedByName(t *testing.T) {
	t.Parallel()
	s := newTenantServer(t)
	owner := accesstest.Token(t, s.pool, "", control.Admin)
	asked := 0
	for _, operation := range control.Operations() {
		d := operation.Describe()
		for _, f := range reflect.VisibleFields(d.Request) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || f.Type.Kind() != reflect.String || name == "" || name == "-" {
				continue
			}
			for _, text := range []string{"a\x00b", "a\xffb"} {
				if text == "a\xffb" && d.Method != http.MethodGet { // JSON is always UTF-8
					continue
				}
				r := request{name: text}
				for _, other := range placeholder.FindAllString(d.Path, -1) {
					if other = strings.Trim(other, "{}"); other != name {
						if r[other] = th0; strings.Contains(d.Path, "/outbox/") {
							r[other] = "1"
						}
					}
				}
				asked++
				if status, answer := s.ask(t, owner, &d, r); status != http.StatusBadRequest || !strings.Contains(answer, name) {
					t.Errorf("%s with %q in %s answers %d %s", d.ID, text, name, status, answer)
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d texts were sent", asked)
	}
}

// th0 has the form of an id, and names nothing.
const th0 = "0199a000-0000-7000-8000-000000000000"
