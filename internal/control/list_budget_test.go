package control_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

// searched are requests of the lists whose tables grow, each narrowed by something that no row has: the list is searched
// until its time is up.
var searched = map[string]string{
	"list_events":            `{"type": "none"}`,
	"list_effects":           `{"type": "none"}`,
	"group_effects":          `{"type": "none"}`,
	"list_dead_letters":      `{"type": "none"}`,
	"group_dead_letters":     `{"type": "none"}`,
	"list_indeterminates":    `{"type": "none"}`,
	"group_indeterminates":   `{"type": "none"}`,
	"list_undecided_effects": `{}`, // the reasons of what is held are others
	"list_effect_items":      `{"id": "01990000-0000-7000-8000-000000000000", "state": "claimed"}`,
	"list_conflicts":         `{"source": "quiet"}`,
	"list_refusals":          `{"cause": "slow"}`,
	"group_refusals":         `{"cause": "slow"}`,
	"list_streams":           `{"tenant": "none"}`,
	"list_replays":           `{"state": "running"}`,
	"list_replay_items":      `{"id": "01990000-0000-7000-8000-000000000001", "outcome": "done"}`,
	"list_audit":             `{"actor": "none"}`,
	"list_outbox":            `{"source": "none"}`,
	"list_suppressions":      `{"target": "none"}`,
	"list_sessions":          `{"run": "none"}`,
}

// short are lists that do not grow with what comes in, with what bounds them.
var short = map[string]string{
	"list_attempts":         "the attempts of one effect, by their key",
	"list_conflict_changes": "one conflict",
	"compare_payloads":      "two payloads",
	"compare_run":           "its own time: TestAuditOfALabel",
	"list_keys":             "the keys of the configuration",
	"list_logins":           "people who are logged in; prune removes the others after a day",
	"list_nodes":            "processes",
	"list_notifications":    "50 places of each kind of attention",
	"list_providers":        "the catalogue",
	"list_prune_runs":       "an hour has at most 60, read by their key; prune removes them after 30 days",
	"list_retention":        "the classes of the configuration",
	"list_routes":           "the configuration",
	"list_targets":          "one row for each target of the routes",
	"list_sources":          "the configuration",
	"list_tokens":           "what people made",
}

// fillLists makes 300 rows of everything that is listed, which is more than the first window of a search, and more unknown
// outcomes than are sorted at once.
const fillLists = `
INSERT INTO source (name, provider, class) VALUES ('busy', 'stripe', 'default'), ('quiet', 'stripe', 'default');
INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'ledger', 'a', 'forward', '');
CREATE FUNCTION id_of(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT ('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
    SELECT id_of(n), 1, 'evt_' || n, 'x', sha256('x'), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 1, false, false FROM generate_series(0, 1200) n;
INSERT INTO effect (id, event_id, route_id, item, state, reason, idempotency_key, route_version, finished_at)
    SELECT id_of(n), id_of(n), 1, 0, (ARRAY['done', 'dead', 'indeterminate', 'held'])[1 + n % 4], CASE WHEN n % 4 > 0 THEN 'status_4xx' END, 'key', 1,
        CASE WHEN n % 4 = 0 THEN now() END FROM generate_series(0, 1200) n;
INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, finished_at)
    SELECT id_of(2000 + n), id_of(0), 1, n, 'done', 'key', 1, now() FROM generate_series(1, 300) n;
INSERT INTO effect (id, event_id, route_id, item, state, reason, idempotency_key, route_version)
    SELECT id_of(10000 + n), id_of(1), 1, n, 'indeterminate', 'timeout', 'key', 1 FROM generate_series(1, 10300) n;
INSERT INTO stream (route_id, key_hash) SELECT 1, sha256(n::text::bytea) FROM generate_series(1, 300) n;
INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned, first_seen_at, last_seen_at, headers, body)
    SELECT id_of(n), id_of(n), 1, sha256('x'), sha256('x'), '{}', 'x', '', '', false, now(), now(), '', '' FROM generate_series(1, 300) n;
INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, size)
    SELECT id_of(n), 1, now(), 'mismatch', '', false, 'POST', '/', '', 0 FROM generate_series(1, 600) n;
INSERT INTO outbox (source, event_id, type, payload) SELECT 'busy', n::text, 'x', '{}' FROM generate_series(1, 300) n;
INSERT INTO audit (id, actor, action, object) SELECT id_of(n), 'ann', 'replay.run', 'x' FROM generate_series(1, 300) n;
INSERT INTO replay (id, state, scope, actor) SELECT id_of(n), 'done', '{}', 'ann' FROM generate_series(1, 300) n;
INSERT INTO replay_item (replay_id, position, event_id, action) SELECT id_of(1), n, id_of(n), 'replay' FROM generate_series(1, 300) n;
INSERT INTO suppression (id, digest, target, reason, created_at) SELECT id_of(n), sha256(n::text::bytea), '', 'bounce', now() FROM generate_series(1, 300) n;
INSERT INTO agent_session (id, digest, source_id, credential, run, created_at, expires_at)
    SELECT id_of(n), sha256(n::text::bytea), 1, 'a', 'r', now(), now() + interval '1 hour' FROM generate_series(1, 300) n;`

// filledLists is a schema with rows of everything that is listed.
func filledLists(t *testing.T) (url, schema string, pool *pgxpool.Pool) {
	t.Helper()
	url, schema = inboxtest.Schema(t)
	pool = inboxtest.Open(t, url, schema, session.PoolAdmin, 3)
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		_, err := conn.Conn().PgConn().Exec(t.Context(), fillLists).ReadAll()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return url, schema, pool
}

// Every list says how far it got when its time is up; a new one has to be named here, with a request or with what bounds it.
func TestEveryListEndsWithItsBudget(t *testing.T) {
	t.Parallel()
	url, schema, pool := filledLists(t)
	s, err := control.NewService(control.Config{Pool: pool, Lists: inboxtest.Open(t, url, schema, session.PoolList, 2), ListBudget: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		if !strings.HasPrefix(d.Response.Name(), "Page[") || short[d.ID] != "" {
			continue
		}
		request, ok := searched[d.ID]
		if !ok {
			t.Errorf("%s is a list of which nothing says whether its search ends: give it a request in searched, or what bounds it in short", d.ID)
			continue
		}
		answer, err := operation.Run(t.Context(), s, control.Everything("test"), func(into any) error { return json.Unmarshal([]byte(request), into) })
		if err != nil {
			t.Errorf("%s: %v", d.ID, err)
			continue
		}
		page := reflect.ValueOf(answer)
		if page.FieldByName("SearchedTo").IsNil() {
			t.Errorf("%s with %s does not say how far it got when its time is up: %+v", d.ID, request, answer)
		}
		if next := page.FieldByName("Next").String(); next == "" && !strings.HasPrefix(d.ID, "group_") {
			t.Errorf("%s with %s has no cursor to go on with", d.ID, request)
		}
	}
}

// The counts of groups say that they are lower bounds if the search ended early, and that they are exact if it did not.
func TestCountsOfGroupsSayWhetherTheyAreExact(t *testing.T) {
	t.Parallel()
	url, schema, pool := filledLists(t)
	lists := inboxtest.Open(t, url, schema, session.PoolList, 2)
	for _, budget := range []time.Duration{-1, time.Minute} {
		s, err := control.NewService(control.Config{Pool: pool, Lists: lists, ListBudget: budget})
		if err != nil {
			t.Fatal(err)
		}
		grouped := 0
		for _, operation := range control.Operations() {
			d := operation.Describe()
			if !strings.HasPrefix(d.ID, "group_") {
				continue
			}
			answer, err := operation.Run(t.Context(), s, control.Everything("test"), func(any) error { return nil })
			if err != nil {
				t.Fatalf("%s: %v", d.ID, err)
			}
			page := reflect.ValueOf(answer)
			cut, data := !page.FieldByName("SearchedTo").IsNil(), page.FieldByName("Data")
			if cut != (budget < 0) || data.Len() == 0 {
				t.Errorf("%s within %s: cut short is %t, with %d groups", d.ID, budget, cut, data.Len())
			}
			for i := range data.Len() {
				g := data.Index(i)
				if more := g.FieldByName("More").Bool(); more != (cut || g.FieldByName("Count").Int() == read.MaxCount) {
					t.Errorf("%s within %s: a group says more: %t, and the search was cut short: %t", d.ID, budget, more, cut)
				}
			}
			grouped++
		}
		if grouped < 3 {
			t.Errorf("only %d lists are grouped", grouped)
		}
	}
}
