package registry_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/session"
)

// A route that left the configuration had its effects put off for ever without a word.
func TestWhatAConfigurationLeavesBehindIsCounted(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	both := src("a")
	both.Routes = append(both.Routes, registry.Route{Name: "second", Target: "sink", Kind: "forward", Digest: []byte{1}})
	source := served("a", register(t, b.Pool, both, src("b"))["a"])
	for _, id := range []string{"e1", "e2", "e3", "e4", "e5", "e6"} {
		accept(t, b, source, id)
	}
	storetest.Exec(t, b.Pool, `
WITH numbered AS (
    SELECT x.id, row_number() OVER (ORDER BY x.id) AS n FROM effect x JOIN route r ON r.id = x.route_id WHERE r.name = 'second')
UPDATE effect e SET
    state = (ARRAY['pending', 'retry', 'held', 'held', 'dead', 'indeterminate'])[n],
    next_at = CASE WHEN n <= 2 THEN now() END, reason = CASE WHEN n > 4 THEN 'status_503' END,
    sequence_key_hash = CASE WHEN n IN (3, 4) THEN sha256('k') END
FROM numbered d WHERE d.id = e.id`)
	check := func(sources ...registry.Source) *registry.RegistrationCheck {
		t.Helper()
		out, err := registry.Registration{Pool: b.Pool, Sources: sources}.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := registry.StrandedRoute{Source: "a", Route: "second", Pending: 1, Retry: 1, Held: 2, Streams: 1, Dead: 1, Indeterminate: 1}
	if got := check(src("a"), src("b")); len(got.Routes) != 1 || got.Routes[0] != want || len(got.Sources) != 0 {
		t.Errorf("without one of its routes: %+v, want %+v", got, want)
	}
	renamed := src("new", "a")
	want.Source = "new"
	got := check(renamed, src("b"))
	if len(got.Routes) != 1 || got.Routes[0] != want || len(got.Sources) != 0 || len(got.Renames) != 1 {
		t.Errorf("renamed: %+v, want its route without a name, %+v", got, want)
	}
	for _, said := range []string{"1 pending, 1 in retry, 2 held, 1 dead, 1 indeterminate, in 1 stream", "previous_names: [second]", "routes move new/second", "dead discard --source new --route second", "effects resolve --source new --route second"} {
		if text := want.String(); !strings.Contains(text, said) {
			t.Errorf("%q does not say %q", text, said)
		}
	}
	if got := check(src("b")); len(got.Routes) != 2 || len(got.Sources) != 1 || got.Sources[0] != (registry.StrandedSource{Source: "a", Provider: "test", Keys: 6}) {
		t.Errorf("without the source: %+v, want two routes and a source with 6 keys", got)
	}
	if _, err := (registry.Registration{Pool: b.Pool, Sources: []registry.Source{src("new"), src("b")}}).Check(t.Context()); err == nil {
		t.Error("a check takes what a start refuses")
	}
	if n := column[int](t, b.Pool, `SELECT count(*) FROM past_name`)[0]; n != 0 {
		t.Errorf("checks wrote %d names", n)
	}
}

// What nobody carries out has a gauge; a route of a live process is not among it, even if
// an older process started last.
func TestStrandedEffectsAreThoseOfNoLiveConfiguration(t *testing.T) {
	t.Parallel()
	b := newRenamed(t)
	both := src("a")
	both.Routes = append(both.Routes, registry.Route{Name: "second", Target: "sink", Kind: "forward", Digest: []byte{1}})
	row := register(t, b.Pool, both)["a"]
	accept(t, b, served("a", row), "e1")
	stranded := func() string {
		t.Helper()
		routes, err := registry.ReadStrandedEffects(t.Context(), b.Pool)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, r := range routes {
			if r.Waiting() > 0 {
				out = append(out, r.Source+"/"+r.Route)
			}
		}
		return strings.Join(out, " ")
	}
	if got := stranded(); got != "" {
		t.Errorf("stranded are %q, want none", got)
	}
	register(t, b.Pool, src("a"))
	if got := stranded(); got != "a/second" {
		t.Errorf("stranded are %q, want a/second", got)
	}
	node, err := node.New(node.Config{Pool: b.Pool, Name: "worker", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := node.Work(t.Context(), []int32{row.Routes["second"].ID}); err != nil {
		t.Fatal(err)
	}
	if got := stranded(); got != "" {
		t.Errorf("stranded are %q beside a live process that works the route, want none", got)
	}
	storetest.Exec(t, b.Pool, `UPDATE node SET heartbeat = now() - interval '31 s'`)
	if got := stranded(); got != "a/second" {
		t.Errorf("stranded are %q beside a process that is silent, want a/second", got)
	}
}

// However large the tables are, a start reads no further than its bounds.
func TestStrandedPlans(t *testing.T) {
	t.Parallel()
	const events = `
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
SELECT gen_random_uuid(), 1, n::text, 't', sha256(''), now(), 'ok', 'default', gen_random_uuid(), 0, 0, 1, false, false FROM generate_series(1, 3000) n`
	for name, prepare := range map[string][]string{
		"never analysed":         nil,
		"analysed while empty":   {"VACUUM ANALYZE effect", "VACUUM ANALYZE inbox_event", storetest.NothingDue, events},
		"analysed while at rest": {storetest.NothingDue, events, "VACUUM ANALYZE effect", "VACUUM ANALYZE inbox_event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
			for _, sql := range prepare {
				storetest.Exec(t, pool, sql)
			}
			for sql, args := range registry.StrandedStatements {
				var lines []string
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), registry.CheckSession, "10000"); err != nil {
						return err
					}
					rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
					if err != nil {
						return err
					}
					lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				plan := strings.Join(lines, "\n")
				scans := regexp.MustCompile(`Scan.* on (?:effect|inbox_event|effect_key)\b`).FindAllString(plan, -1)
				narrow := regexp.MustCompile(`Index (?:Only )?Scan using (?:effect_due_idx|effect_rest_idx|effect_indeterminate_idx|effect_held_idx|inbox_event_key|effect_key_pkey) on`).FindAllString(plan, -1)
				if len(scans) == 0 || len(scans) != len(narrow) || strings.Contains(plan, "Incremental Sort") {
					t.Errorf("it is not read through its index:\n%s", plan)
				}
			}
		})
	}
}
