package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
	"github.com/oncegate/oncegate/providers"
)

// auditing is a source of operations with the steps of some runs, as a database has them.
type auditing struct {
	tb        testing.TB
	pool      *pgxpool.Pool
	url       string
	schema    string
	target    *httptest.Server
	asked     atomic.Int64 // requests to the target but for questions
	questions atomic.Int64 // dry runs
	bodies    sync.Map     // of dry runs, by order
	routes    map[string]int32
	source    int32
}

const auditedFile = `
targets:
  bank: { kind: forward, url: "%[1]s/orders/{body.order}", method: PUT, idempotent: true, probe: { url: "%[1]s/probe/{key}" } }
  moved: { kind: forward, url: "%[1]s/v2/{body.order}", method: PUT, idempotent: true }
  plain: { kind: forward, url: "%[1]s/plain", idempotent: true }
  asked: { kind: forward, url: "%[1]s/orders/{body.order}", idempotent: true, keep_reply: true, dry_run: { url: "%[1]s/dry/{body.order}", method: PUT, volatile: [at] } }
  turned: { kind: forward, url: "%[1]s/plain", idempotent: true, dry_run: { url: "%[1]s/{body.path}" } }
sources:
  agents:
    provider: operation
    secrets: [{ env: SECRET, name: planner }]
    routes:
%[2]s`

const auditedRoutes = `      - { name: pay, types: [charge], target: bank, map: { sum: body.sum, key: key } }
      - { name: log, types: [note], target: plain }
      - { name: ask, types: [order], target: asked, map: { sum: body.sum, key: key } }
      - { name: turn, types: [turn], target: turned }
`

func (a *auditing) config(routes string) *config.Config {
	return judgeConfig(a.tb, a.url, a.schema, fmt.Sprintf(auditedFile, a.target.URL, routes), strings.Repeat("s", 32))
}

func newAuditing(tb testing.TB) *auditing {
	tb.Helper()
	a := &auditing{tb: tb}
	a.url, a.schema = inboxtest.Schema(tb)
	a.target = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/probe/") {
			if strings.Contains(r.URL.Path, "lost") {
				w.WriteHeader(http.StatusNotFound)
			}
			return
		}
		if order, ok := strings.CutPrefix(r.URL.Path, "/dry"); ok {
			a.dry(w, r, order)
			return
		}
		a.asked.Add(1)
	}))
	tb.Cleanup(a.target.Close)
	registered(tb, a.config(auditedRoutes))
	a.pool = inboxtest.Open(tb, a.url, a.schema, session.PoolAdmin, 4)
	read, err := registry.Read(tb.Context(), a.pool)
	if err != nil {
		tb.Fatal(err)
	}
	a.source, a.routes = read.Sources["agents"].ID, map[string]int32{}
	for name, route := range read.Sources["agents"].Routes {
		a.routes[name] = route.ID
	}
	if err := inbox.EnsurePartitions(tb.Context(), a.pool, []string{"default"}, time.Now(), 1); err != nil {
		tb.Fatal(err)
	}
	return a
}

// step records one step: an event with its body, and one effect of the route.
func (a *auditing) step(eventID, route, body, rendered, state string) inbox.ID {
	a.tb.Helper()
	id, at := inbox.NewID(time.Now()), "NULL"
	operation := strings.Split(eventID, ":")[1]
	if state == "done" {
		at = "now()"
	}
	var stored []byte
	if rendered != "" {
		stored = []byte(rendered)
	}
	err := pgx.BeginFunc(a.tb.Context(), a.pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		b.Queue(`INSERT INTO inbox_body (class, id, headers, body) VALUES ('default', $1, '{"Content-Type":"application/json"}', $2)`, id, []byte(body))
		b.Queue(`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item,
			body_offset, body_length, id_unsigned, suspected_replay) VALUES ($1, $2, $3, $4, sha256(''), now(), 'ok', 'default', $1, 0, 0, $5, false, false)`,
			id, a.source, eventID, operation, len(body))
		b.Queue(`INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, attempts, rendered, finished_at, next_at, reason)
			VALUES ($1, $1, $2, 1, $3, $4, 1, $5, `+at+`, NULL, CASE WHEN $4 = 'done' THEN NULL ELSE 'attempts_exhausted' END)`,
			id, a.routes[route], "agents/"+eventID+"/"+route, state, stored)
		return tx.SendBatch(a.tb.Context(), &b).Close()
	})
	if err != nil {
		a.tb.Fatal(err)
	}
	return id
}

func (a *auditing) judge(routes string) *app.Judge {
	a.tb.Helper()
	judge, err := app.NewJudge(a.tb.Context(), app.JudgeConfig{Settings: a.config(routes), Pool: a.pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		a.tb.Fatal(err)
	}
	return judge
}

func (a *auditing) audit(routes string, ask replay.AuditRequest) *replay.Audit {
	a.tb.Helper()
	ask.Source = "agents"
	auditor, err := replay.NewAuditor(replay.AuditConfig{Pool: a.pool, Comparer: a.judge(routes).Comparison()})
	if err != nil {
		a.tb.Fatal(err)
	}
	out, err := auditor.Audit(a.tb.Context(), ask)
	if err != nil {
		a.tb.Fatal(err)
	}
	return out
}

func (a *auditing) sent(order, key string) string {
	return "\x00address " + a.target.URL + "/orders/" + order + "\nbody\n" + `{"key":"agents/` + key + `/pay","sum":7}`
}

// dump is every row of every table.
func (a *auditing) dump() string {
	a.tb.Helper()
	rows, err := a.pool.Query(a.tb.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1`)
	if err != nil {
		a.tb.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.Contains(tables, "replay") || !slices.Contains(tables, "effect") {
		a.tb.Fatal(tables, err)
	}
	var out strings.Builder
	for _, name := range tables {
		var text string
		if err := a.pool.QueryRow(a.tb.Context(), `SELECT coalesce(string_agg(x::text, E'\n' ORDER BY x::text), '') FROM `+pgx.Identifier{name}.Sanitize()+` x`).Scan(&text); err != nil {
			a.tb.Fatal(err)
		}
		out.WriteString(name + ":\n" + text + "\n")
	}
	return out.String()
}

func verdicts(audit *replay.Audit) string {
	var out []string
	for _, s := range audit.Steps {
		out = append(out, s.Key+" "+s.Route+" "+string(s.Verdict))
	}
	return strings.Join(out, ", ")
}

// A run is compared step by step, done ones included, and no other run with it.
func TestAuditOfARun(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	const body = `{"order":"o1","sum":7}`
	one := a.step("planner:charge:42:1", "pay", body, a.sent("o1", "planner:charge:42:1"), "done")
	a.step("planner:note:42:2", "log", `{"text":"x"}`, "", "done")
	a.step("other:charge:42:3", "pay", body, a.sent("o1", "other:charge:42:3"), "dead")
	for _, another := range []string{"planner:charge:421:1", "planner:charge:4:42", "planner:charge:42%3a1:1", "planner:charge:142:1", "planner:charge:42x"} {
		a.step(another, "pay", body, a.sent("o1", another), "done")
	}
	a.step("planner:charge:"+providers.KeyPart("a:b %")+":1", "pay", body, "", "done")

	got := a.audit(auditedRoutes, replay.AuditRequest{Run: "42"})
	if want := "42:1 pay same, 42:2 log same, 42:3 pay same"; verdicts(got) != want || !got.AllMatch() || got.Matching != 3 {
		t.Errorf("%s\n%+v\nwant %s", verdicts(got), got.Steps, want)
	}
	if first := got.Steps[0]; first.Effect != one || first.Original.Address != a.target.URL+"/orders/o1" || first.Today.Address != first.Original.Address ||
		first.Original.Body.SHA256 != first.Today.Body.SHA256 || first.State != inbox.EffectDone || first.Operation != "charge" {
		t.Errorf("%+v\n%+v\n%+v", first, first.Original, first.Today)
	}
	if got := a.audit(auditedRoutes, replay.AuditRequest{Run: providers.KeyPart("a:b %")}); len(got.Steps) != 1 {
		t.Errorf("an escaped run: %s", verdicts(got))
	}
	if got := a.audit(auditedRoutes, replay.AuditRequest{Run: "43"}); len(got.Steps) != 0 || got.AllMatch() {
		t.Errorf("an unknown run: %s", verdicts(got))
	}
	if got := a.audit(auditedRoutes, replay.AuditRequest{Run: "42", Since: time.Now().Add(time.Hour)}); len(got.Steps) != 0 {
		t.Errorf("since later: %s", verdicts(got))
	}

	// Page by page.
	page := a.audit(auditedRoutes, replay.AuditRequest{Run: "42", Limit: 2})
	if len(page.Steps) != 2 || page.Next == nil || page.AllMatch() {
		t.Fatalf("%s, next %v", verdicts(page), page.Next)
	}
	if page = a.audit(auditedRoutes, replay.AuditRequest{Run: "42", Limit: 2, After: *page.Next}); verdicts(page) != "42:3 pay same" || page.Next != nil {
		t.Errorf("%s, next %v", verdicts(page), page.Next)
	}
}

// The events with a label are compared in the order in which they came, wherever their labels are kept, and nobody else's with them. A page
// whose time runs out says where the next one begins, and all pages together have each step once.
func TestAuditOfALabel(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	const body = `{"order":"o1","sum":7}`
	var ids []inbox.ID
	for i := range 5 {
		key := fmt.Sprintf("planner:charge:4%d:1", i)
		ids = append(ids, a.step(key, "pay", body, a.sent("o1", key), "done"))
	}
	exec := func(sql string, args ...any) {
		if _, err := a.pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO event_label (event_id, name, value) SELECT id, 'order', 'o1' FROM unnest($1::uuid[]) id`, []inbox.ID{ids[0], ids[2]})
	exec(`INSERT INTO event_label_batch (id, event_id, name, value) VALUES ($1, ARRAY[$1, $2, $3]::uuid[], '{order,order,order}', ARRAY['o1'::bytea, 'o1', 'o10'])`, ids[1], ids[0], ids[3])
	exec(`UPDATE inbox_event SET tenant = 'acme' WHERE id = $1`, ids[2])
	label := inbox.Label{Name: "order", Value: "o1"}
	for want, ask := range map[string]replay.AuditRequest{
		"40:1 pay same, 41:1 pay same, 42:1 pay same": {Label: label}, "42:1 pay same": {Label: label, Tenant: "acme"}, "41:1 pay same": {Label: label, Run: "41"},
		"": {Label: inbox.Label{Name: "order", Value: "o2"}},
	} {
		if got := a.audit(auditedRoutes, ask); verdicts(got) != want || !got.InTime {
			t.Errorf("%+v: %s, want %s", ask, verdicts(got), want)
		}
	}
	if got := a.audit(auditedRoutes, replay.AuditRequest{Run: "42", Tenant: "blue"}); len(got.Steps) != 0 {
		t.Errorf("another tenant's run: %s", verdicts(got))
	}

	// More bytes than one chunk has, and no time at all: a page has one chunk.
	large := `{"order":"o1","sum":7,"pad":"` + strings.Repeat("x", 3<<20) + `"}`
	for i := range 3 {
		key := fmt.Sprintf("planner:charge:large:%d", i)
		a.step(key, "pay", large, a.sent("o1", key), "done")
	}
	now := time.Now()
	auditor, err := replay.NewAuditor(replay.AuditConfig{Pool: a.pool, Comparer: a.judge(auditedRoutes).Comparison(), Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for ask, pages := (replay.AuditRequest{Source: "agents", Run: "large", Within: time.Second}), 1; ; pages++ {
		page, err := auditor.Audit(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, verdicts(page))
		if page.Next == nil {
			if got, want := strings.Join(keys, ", "), "large:0 pay same, large:1 pay same, large:2 pay same"; got != want || pages != 3 || !page.InTime {
				t.Errorf("%d pages with %s, want 3 with %s", pages, got, want)
			}
			break
		}
		if page.InTime || page.AllMatch() {
			t.Errorf("a page that was cut does not say so: %+v", page)
		}
		ask.After = *page.Next
	}
}

// What differs is told, and what cannot be compared is no match.
func TestAuditTellsWhatDiffers(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	const body = `{"order":"o1","sum":7}`
	const eventID = "planner:charge:42:1"
	id := a.step(eventID, "pay", body, a.sent("o1", eventID), "done")
	for name, c := range map[string]struct{ change, want, says string }{
		"another body":      {`      - { name: pay, types: [charge], target: bank, map: { sum: body.sum * 100, key: key } }`, "42:1 pay other_body", `{"path":"sum"`},
		"another address":   {`      - { name: pay, types: [charge], target: moved, map: { sum: body.sum, key: key } }`, "42:1 pay other_target", ""},
		"no condition":      {`      - { name: pay, types: [charge], target: bank, when: body.sum > 100, map: { sum: body.sum, key: key } }`, "42:1 pay no_route", ""},
		"another type":      {`      - { name: pay, types: [refund], target: bank, map: { sum: body.sum, key: key } }`, "42:1 pay no_route", ""},
		"a failing mapping": {`      - { name: pay, types: [charge], target: bank, map: { sum: body.total, key: key } }`, "42:1 pay cannot_render", ""},
	} {
		got := a.audit(c.change+"\n", replay.AuditRequest{Run: "42"})
		if verdicts(got) != c.want || got.AllMatch() || got.Matching != 0 {
			t.Errorf("%s: %s %v, want %s", name, verdicts(got), got.Steps[0].Why, c.want)
		}
	}
	if _, err := a.pool.Exec(t.Context(), `UPDATE inbox_event SET body_id = gen_random_uuid() WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if got := a.audit(auditedRoutes, replay.AuditRequest{Run: "42"}); verdicts(got) != "42:1 pay gone" || got.AllMatch() {
		t.Errorf("pruned: %s", verdicts(got))
	}
}

// Results are compared with what the targets' probes say, which are questions.
func TestAuditOfResults(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	const body = `{"order":"o1","sum":7}`
	a.step("planner:charge:42:1", "pay", body, a.sent("o1", "planner:charge:42:1"), "done")
	a.step("planner:charge:42:lost", "pay", body, a.sent("o1", "planner:charge:42:lost"), "done")
	a.step("planner:note:42:2", "log", `{"text":"x"}`, "", "done")
	got := a.audit(auditedRoutes, replay.AuditRequest{Run: "42"})
	results, err := a.judge(auditedRoutes).Results()
	if err != nil {
		t.Fatal(err)
	}
	if err := results.Compare(t.Context(), got, func(int) {}); err != nil {
		t.Fatal(err)
	}
	first, lost, unasked := got.Steps[0].Result, got.Steps[1].Result, got.Steps[2].Result
	if first.Target != "done 200" || !*first.Match || lost.Target != "absent 404" || *lost.Match || unasked.Target != "no probe" || unasked.Match != nil || got.AllMatch() || got.Matching != 2 {
		t.Errorf("%+v, %+v, %+v; %d match", first, lost, unasked, got.Matching)
	}
	if a.asked.Load() != 0 {
		t.Errorf("%d requests other than probes", a.asked.Load())
	}
}

// An audit changes nothing and sends nothing. The museum holds audits that do, and the check has to see them.
func TestAnAuditOnlyReads(t *testing.T) {
	t.Parallel()
	a := newAuditing(t)
	const eventID = "planner:charge:42:1"
	a.step(eventID, "pay", `{"order":"o1","sum":7}`, a.sent("o1", eventID), "dead")
	a.step("planner:note:42:2", "log", `{"text":"x"}`, "", "dead")
	changed := func(audit func()) bool {
		before, asked := a.dump(), a.asked.Load()
		audit()
		return a.dump() != before || a.asked.Load() != asked
	}
	if changed(func() {
		got := a.audit(auditedRoutes, replay.AuditRequest{Run: "42"})
		results, err := a.judge(auditedRoutes).Results()
		if err == nil {
			err = results.Compare(t.Context(), got, func(int) {})
		}
		if err != nil || len(got.Steps) != 2 {
			t.Errorf("%v, %s", err, verdicts(got))
		}
	}) {
		t.Error("an audit changed something")
	}
	for name, wrong := range map[string]func(context.Context) error{
		"plans a replay": func(ctx context.Context) error {
			store, err := inbox.NewEffects(inbox.EffectsConfig{Pool: a.pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "cli"})
			if err != nil {
				return err
			}
			replays, err := replay.New(replay.Config{Pool: a.pool, Store: store})
			if err != nil {
				return err
			}
			_, err = replays.Plan(ctx, replay.PlanRequest{Scope: replay.Scope{All: true}, Actor: "ann"})
			return err
		},
		"sends": func(ctx context.Context) error {
			sender, err := forward.New(forward.Config{URL: a.target.URL})
			if err == nil {
				sender.Send(ctx, &effect.Call{Event: effect.Event{Body: []byte("{}")}, Key: "k", Attempt: 1})
			}
			return err
		},
	} {
		if !changed(func() {
			if err := wrong(t.Context()); err != nil {
				t.Fatal(err)
			}
		}) {
			t.Errorf("an audit that %s was not noticed", name)
		}
	}
	// It holds no transaction while it compares.
	auditor, err := replay.NewAuditor(replay.AuditConfig{Pool: a.pool, Comparer: writing{a}})
	if err != nil {
		t.Fatal(err)
	}
	if changed(func() { _, err = auditor.Audit(t.Context(), replay.AuditRequest{Source: "agents", Run: "42"}) }) || err != nil {
		t.Errorf("%v", err)
	}
}

// writing looks whether a transaction of the audit is open.
type writing struct{ a *auditing }

func (w writing) Compare(ctx context.Context, r *replay.RecordedEvent) ([]replay.RunStep, error) {
	var open int
	err := w.a.pool.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE relation = 'effect'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`).Scan(&open)
	if err == nil && open > 0 {
		err = fmt.Errorf("it holds %d locks", open)
	}
	return []replay.RunStep{{Event: r.Event.ID, Match: true}}, err
}
