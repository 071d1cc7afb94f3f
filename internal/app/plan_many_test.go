package app_test

import (
	"flag"
	"log/slog"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
)

var (
	planDead = flag.Int("plan.dead", 1200, "how many dead letters TestPlanManyDeadLetters plans")
	planDays = flag.Int("plan.days", 8, "over how many days they lie")
	planBusy = flag.Int("plan.busy", 1, "how many processes are busy beside it")
	planRuns = flag.Int("plan.runs", 1, "how often it plans")
	planHeap = flag.Int("plan.heap", 64, "how many MiB the heap may grow to")
)

// TestPlanManyDeadLetters plans dead letters with the real judge, over many partitions, on a database that compiles
// statements unless a session asks it not to, beside processes that keep the processors busy. `.ci/nightly plan` runs it in full, which
// takes some minutes.
func TestPlanManyDeadLetters(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	url += "&jit=on"
	cfg := judgeConfig(t, url, schema, judged+forwardRoute, "whsec_test")
	registered(t, cfg)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	execute := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	first := time.Now().AddDate(0, 0, 1-*planDays)
	if err := inbox.EnsurePartitions(t.Context(), pool, []string{"default"}, first, *planDays); err != nil {
		t.Fatal(err)
	}
	execute(`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
			id_unsigned, suspected_replay)
		SELECT i, 1, 'evt_' || n, 'invoice.paid', sha256(''), at, 'ok', 'default', i, 0, 0, $3::int, false, false
		FROM (SELECT n, at, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid AS i
			FROM (SELECT n, now() - (n % $2::int) * interval '1 day' AS at FROM generate_series(1, $1::int) n) d) x`, *planDead, *planDays, len(judgedBody))
	execute(`INSERT INTO inbox_body (class, id, headers, body) SELECT 'default', id, $1, $2 FROM inbox_event`,
		[]byte(`{"Content-Type":["application/json"],"Stripe-Signature":["`+judgedSignature+`"]}`), []byte(judgedBody))
	execute(`INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, reason, last_code, attempts)
		SELECT id, id, (SELECT min(id) FROM route), 1, 'key-' || id, 'dead', 'attempts_exhausted', '503', 2 FROM inbox_event`)
	for range *planBusy {
		busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	}
	judge, err := app.NewJudge(t.Context(), app.JudgeConfig{Settings: cfg, Pool: pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	effects, err := inbox.NewEffects(inbox.EffectsConfig{Pool: pool, Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Node: "test"})
	if err != nil {
		t.Fatal(err)
	}
	replays, err := replay.New(replay.Config{Pool: pool, Store: effects, Judge: judge})
	if err != nil {
		t.Fatal(err)
	}
	for n := range *planRuns {
		var most uint64
		began := time.Now()
		plan, err := replays.Plan(t.Context(), replay.PlanRequest{Scope: replay.Scope{All: true}, Actor: "ann", Progress: func(int) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}})
		if err != nil || plan.State != replay.Planned || plan.Summary.ToDo != *planDead || plan.Summary.Items != *planDead {
			t.Fatalf("plan %d: %v, %+v", n+1, err, plan)
		}
		// The short form runs beside other tests, whose heap it would count.
		if *planDead >= 20000 && most > uint64(*planHeap)<<20 {
			t.Errorf("plan %d: the heap grew to %d MiB", n+1, most>>20)
		}
		t.Logf("plan %d: %d dead letters of %d days in %s, heap at most %d MiB", n+1, *planDead, *planDays, time.Since(began).Round(time.Millisecond), most>>20)
	}
}
