package attention_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// The things of source shop (1) belong to acme, those of bank (2) to nobody. Route 3 is gone.
const sources = `
INSERT INTO source (name, provider, class, tenant) VALUES ('shop', 'stripe', 'default', 'acme'), ('bank', 'stripe', 'default', '');
INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'ledger', 'a', 'forward', ''), (2, 'ledger', 'b', 'forward', ''), (2, 'old', 'c', 'forward', '');
UPDATE route SET updated_at = now() - interval '1 hour' WHERE id = 3;
CREATE FUNCTION new_id(ago interval) RETURNS uuid LANGUAGE sql AS $$
    SELECT (lpad(to_hex((extract(epoch FROM now() - ago) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid $$;
CREATE FUNCTION new_event(source int, ago interval, admission text DEFAULT 'ok', tenant text DEFAULT NULL) RETURNS uuid LANGUAGE sql AS $$
    INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay, tenant)
    SELECT new_id(ago), source, 'evt_' || random(), 'x', sha256('x'), now() - ago, admission, 'default', gen_random_uuid(), 0, 0, 1, false, false, tenant RETURNING id $$;
CREATE FUNCTION new_effect(event uuid, route int, state text, ago interval, reason text DEFAULT 'status_4xx', key bytea DEFAULT NULL) RETURNS uuid LANGUAGE sql AS $$
    INSERT INTO effect (id, event_id, route_id, state, idempotency_key, route_version, finished_at, next_at, reason, sequence_key_hash, sequence_number)
    SELECT new_id(ago), event, route, state, 'key', 1, CASE WHEN state = 'done' THEN now() END, CASE WHEN state = 'pending' THEN now() END, reason, key,
        CASE WHEN key IS NOT NULL THEN 1 END RETURNING id $$;`

// waiting is one thing of each kind at each of the sources, but for what belongs to none, and some that nobody has to look at.
const waiting = `
INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat, not_reloaded, not_reloaded_at)
SELECT gen_random_uuid(), 'node', '1', '{}', 'c', '{}', '{}', now(), now() - silent, why, now() - interval '25 minutes'
FROM (VALUES (interval '1 s', 'a mistake'), ('1 s', NULL), ('1 hour', 'of a process that died')) n (silent, why);
SELECT new_effect(new_event(1, '2 hours'), 1, 'dead', '2 hours'), new_effect(new_event(2, '3 hours'), 2, 'dead', '3 hours');
SELECT new_effect(new_event(2, '1 hour', tenant => 'acme'), 2, 'dead', '1 hour');
SELECT new_effect(new_event(1, '2 hours'), 1, 'done', '2 hours');
SELECT new_effect(new_event(1, '4 hours'), 1, 'indeterminate', '4 hours'), new_effect(new_event(2, '5 hours'), 2, 'indeterminate', '5 hours');
SELECT new_event(1, '6 hours', 'unusable'), new_event(2, '7 hours', 'beyond_retention'), new_event(2, '7 hours', 'unrouted');
UPDATE inbox_event SET discarded_at = now() WHERE id = (SELECT new_event(2, '9 hours', 'unusable'));
SELECT new_event(2, '9 hours', 'unusable');
UPDATE inbox_event SET discarded_at = now() WHERE received_at < now() - interval '8 hours';
INSERT INTO stream (route_id, key_hash, blocked_by, updated_at)
    SELECT r, sha256('a'), new_effect(new_event(r, '10 minutes'), r, 'done', '10 minutes'), now() - interval '8 minutes' FROM generate_series(1, 2) r;
INSERT INTO stream (route_id, key_hash, gap_since) SELECT r, sha256('b'), now() - interval '9 minutes' FROM generate_series(1, 2) r;
INSERT INTO stream (route_id, key_hash, gap_since) SELECT 1, sha256('young'), now() - interval '1 minute';
SELECT new_effect(new_event(r, '11 minutes'), r, 'held', '11 minutes', 'gap', sha256('b')) FROM generate_series(1, 2) r;
SELECT new_effect(new_event(r, '12 minutes'), r, 'held', '12 minutes', 'sequence_key_missing') FROM generate_series(1, 2) r;
INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned, first_seen_at, last_seen_at, headers, body,
        admitted_at, admitted_as)
    SELECT gen_random_uuid(), new_event(s, '13 minutes'), s, sha256('x'), sha256('x'), '{}', 'x', '', '', false, now() - interval '13 minutes', now(), '', '',
        CASE WHEN s > 2 THEN now() END, CASE WHEN s > 2 THEN gen_random_uuid() END FROM generate_series(1, 3) s;
INSERT INTO outbox (source, event_id, type, payload, created_at, refused_at, refusal) SELECT s, 'a', 'x', '{}', now() - interval '14 minutes', now(), 'type' FROM unnest(ARRAY['shop', 'bank']) s;
SELECT new_effect(new_event(2, '15 minutes'), 3, 'pending', '15 minutes'), new_effect(new_event(2, '16 minutes'), 3, 'held', '16 minutes', 'gap');
INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, size)
    SELECT new_id(ago), s, now() - ago, 'mismatch', '', false, 'POST', '/', '', 0 FROM generate_series(1, 2) s, unnest(ARRAY[interval '17 minutes', interval '2 days']) ago;
INSERT INTO stat_hour SELECT s, 'suspected', date_bin('1 hour', now() - interval '3 hours', 'epoch'), 0, CASE s WHEN 1 THEN 'acme' ELSE '' END, 4 FROM generate_series(1, 2) s;
INSERT INTO stat_hour SELECT s, 'recorded', date_bin('1 hour', now() - h * interval '1 hour', 'epoch'), 0, CASE s WHEN 1 THEN 'acme' ELSE '' END, 60
    FROM generate_series(1, 2) s, generate_series(20, 200) h;
INSERT INTO stat_source VALUES (1, 'acme', now() - interval '200 hours', now() - interval '20 hours'), (2, '', now() - interval '200 hours', now() - interval '21 hours');
INSERT INTO replay (id, state, scope, actor, created_at, expires_at, started_at, next_at) VALUES
    (gen_random_uuid(), 'planned', '{"tenant": "acme"}', 'ann', now() - interval '18 minutes', now() + interval '1 hour', NULL, NULL),
    (gen_random_uuid(), 'planned', '{}', 'ann', now() - interval '19 minutes', now() + interval '1 hour', NULL, NULL),
    (gen_random_uuid(), 'planned', '{}', 'ann', now() - interval '3 days', now() - interval '2 days', NULL, NULL),
    (gen_random_uuid(), 'running', '{}', 'ann', now() - interval '2 hours', NULL, now() - interval '1 hour', now() - interval '30 minutes'),
    (gen_random_uuid(), 'running', '{}', 'ann', now() - interval '2 hours', NULL, now() - interval '1 hour', now());
INSERT INTO pause (source_id, route_id, target, actor, reason, paused_at) VALUES
    (1, NULL, NULL, 'ann', 'x', now() - interval '20 minutes'), (NULL, 2, NULL, 'ann', 'x', now() - interval '21 minutes'),
    (NULL, NULL, 'c', 'ann', 'x', now() - interval '22 minutes');`

func setup(t *testing.T, statements ...string) (*pgxpool.Pool, *attention.Reader) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	for _, sql := range statements {
		err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
			_, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := attention.New(attention.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return pool, r
}

// text is one line an item: kind, count, minutes since the oldest, places.
func text(t *testing.T, r *attention.Reader, tenant string) string {
	t.Helper()
	all, err := r.Read(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, item := range all.Data {
		since := "-"
		if item.Oldest != nil {
			since = fmt.Sprint(int(time.Since(*item.Oldest).Minutes()))
		}
		fmt.Fprintf(&b, "%s %d %s", item.Kind, item.Count, since)
		for _, p := range item.Places {
			fmt.Fprintf(&b, " %s/%s=%d", p.Source, p.Route, p.Count)
		}
		for _, p := range item.Pauses {
			fmt.Fprintf(&b, " %s by %s: %s", p.Words(), p.By, p.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Each kind is found with its number, its age and its places, and nothing that nobody has to look at.
func TestRead(t *testing.T) {
	t.Parallel()
	_, r := setup(t, sources, waiting)
	want := `indeterminate 2 300 bank/ledger=1 shop/ledger=1
dead 3 180 bank/ledger=2 shop/ledger=1
unusable 2 420 bank/=1 shop/=1
blocked 2 8 bank/ledger=1 shop/ledger=1
gap 2 9 bank/ledger=1 shop/ledger=1
undecided 2 12 bank/ledger=1 shop/ledger=1
conflict 2 13 bank/=1 shop/=1
outbox_refused 2 14 bank/=1 shop/=1
stranded 2 16 bank/old=2
not_reloaded 1 25
silent 1 1260 bank/=1
refusal 2 17 bank/=1 shop/=1
suspected 8 - bank/=4 shop/=4
plan 2 19
replay_standstill 1 30
paused 3 22 target c by ann: x route bank/ledger by ann: x source shop by ann: x
`
	if got := text(t, r, ""); got != want {
		t.Errorf("what waits is\n%swant\n%s", got, want)
	}
}

// A tenant sees what is theirs: also the event that a credential of theirs made at somebody else's source.
func TestReadOfATenant(t *testing.T) {
	t.Parallel()
	_, r := setup(t, sources, waiting)
	want := `indeterminate 1 240 shop/ledger=1
dead 2 120 bank/ledger=1 shop/ledger=1
unusable 1 360 shop/=1
blocked 1 8 shop/ledger=1
gap 1 9 shop/ledger=1
undecided 1 12 shop/ledger=1
conflict 1 13 shop/=1
outbox_refused 1 14 shop/=1
refusal 1 17 shop/=1
suspected 4 - shop/=4
plan 1 18
paused 2 22 target c by ann: x source shop by ann: x
`
	if got := text(t, r, "acme"); got != want {
		t.Errorf("what waits for acme is\n%swant\n%s", got, want)
	}
	if got := text(t, r, "another"); got != "paused 1 22 target c by ann: x\n" { // its effects may wait for a target
		t.Errorf("a tenant without anything sees\n%s", got)
	}
}

// Nothing waits in an empty inbox.
func TestReadOfNothing(t *testing.T) {
	t.Parallel()
	_, r := setup(t)
	if got := text(t, r, ""); got != "" {
		t.Errorf("in an empty inbox waits\n%s", got)
	}
}

// Counting ends at the bound, and says so.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	_, r := setup(t, sources, `SELECT new_effect(gen_random_uuid(), 1, 'dead', '1 hour') FROM generate_series(1, 10050)`)
	all, err := r.Read(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Data) != 1 || all.Data[0].Count != attention.MaxCounted || !all.Data[0].More {
		t.Errorf("10,050 dead effects are %+v", all.Data)
	}
	if all, err = r.Read(t.Context(), "nobody"); err != nil || len(all.Data) != 0 {
		t.Errorf("of another tenant: %+v (%v)", all.Data, err)
	}
}

// A tenant's things are all found and counted behind more of others' than are counted, of every kind that a bound could hide.
func TestReadOfATenantBehindOthers(t *testing.T) {
	t.Parallel()
	pool, _ := setup(t, sources, `
		ALTER TABLE effect SET (autovacuum_enabled = false);
		ALTER TABLE inbox_event SET (autovacuum_enabled = false);
		SELECT new_effect(new_event(1, '7 hours', tenant => 'other'), 1, s, '7 hours', 'gap')
		FROM generate_series(1, 10050), unnest(ARRAY['dead', 'indeterminate', 'held']) s`, waiting)
	patient, err := attention.New(attention.Config{Pool: pool, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	all, err := patient.Read(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	found := map[attention.Kind]attention.Item{}
	for _, item := range all.Data {
		found[item.Kind] = item
	}
	for kind, want := range map[attention.Kind]int64{attention.Dead: 2, attention.Indeterminate: 1, attention.Undecided: 1} {
		if item := found[kind]; item.Count != want || item.More {
			t.Errorf("%s of acme behind 10,050 of others: %+v, want %d and no more", kind, item, want)
		}
	}
	hurried, err := attention.New(attention.Config{Pool: pool, Budget: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if all, err = hurried.Read(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	more := map[attention.Kind]bool{}
	for _, item := range all.Data {
		more[item.Kind] = item.More
	}
	if !more[attention.Dead] {
		t.Errorf("without time, nothing says that not all were looked at: %+v", all.Data)
	}
}

// Whatever the tables hold, each kind is read through its index and no table of events, effects or streams as a whole.
func TestPlans(t *testing.T) {
	t.Parallel()
	full, _ := setup(t, sources, waiting, `
		SELECT new_effect(new_event(1, '1 day'), 1, 'done', '1 day') FROM generate_series(1, 20000);
		INSERT INTO stream (route_id, key_hash) SELECT 1, sha256(n::text::bytea) FROM generate_series(1, 20000) n`)
	storetest.Analyze(t, full)
	empty, _ := setup(t)
	want := map[attention.Kind]string{
		attention.Indeterminate: "effect_indeterminate_idx", attention.Dead: "effect_dead_idx", attention.Unusable: "inbox_event_dead_idx",
		attention.Blocked: "stream_blocked_idx", attention.Gaps: "stream_gap_idx", attention.Undecided: "effect_held_idx", attention.Conflicts: "conflict_source_idx",
		attention.RefusedOutbox: "outbox_refused_idx", attention.Stranded: "effect_due_idx", attention.Refusals: "refusal_source_idx",
		attention.Failing: "effect_due_idx", attention.Plans: "replay_open_idx", attention.Standstills: "replay_open_idx",
	}
	for size, pool := range map[string]*pgxpool.Pool{"full": full, "empty": empty} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			for _, tenant := range []bool{false, true} {
				for kind, sql := range attention.Statements(tenant) {
					plan := planOf(t, pool, mode, sql)
					for _, table := range []string{"effect", "inbox_event", "stream", "conflict", "refusal", "outbox", "replay"} {
						if strings.Contains(plan, "Seq Scan on "+table+" ") {
							t.Errorf("%s reads the whole table %s in %s tables (%s, of a tenant: %t):\n%s", kind, table, size, mode, tenant, plan)
						}
					}
					if !strings.Contains(plan, want[kind]) {
						t.Errorf("%s does not read %s in %s tables (%s, of a tenant: %t):\n%s", kind, want[kind], size, mode, tenant, plan)
					}
				}
			}
		}
	}
}

func planOf(t *testing.T, pool *pgxpool.Pool, mode, sql string) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), attention.ByIndex); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT set_config('plan_cache_mode', $1, true)`, mode); err != nil {
		t.Fatal(err)
	}
	description, err := tx.Prepare(t.Context(), "planned", sql)
	if err != nil {
		t.Fatalf("%v:\n%s", err, sql)
	}
	values := []string{"10001"}
	for len(values) < len(description.ParamOIDs) {
		value := "'acme'"
		switch description.ParamOIDs[len(values)] {
		case pgtype.UUIDOID:
			value = "'00000000-0000-0000-0000-000000000001'"
		case pgtype.Int8OID: // microseconds
			value = "300000000"
		}
		values = append(values, value)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN EXECUTE planned("+strings.Join(values, ", ")+")")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Conn().Deallocate(t.Context(), "planned"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
