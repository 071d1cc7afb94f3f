package jobs_test

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
)

var deadLetters = flag.Int("dead", 2000, "how many dead letters the benchmarks of replays have")

// buryMany writes dead effects by the thousand, each with its event, its body and
// its attempts.
func (b *bundle) buryMany(n int) {
	b.tb.Helper()
	b.exec(`INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length,
			id_unsigned, suspected_replay)
		SELECT i, $2, 'evt_' || n, 'test.happened', sha256(''), now(), 'ok', 'default', i, 0, 0, 2048, false, false
		FROM (SELECT n, overlay(overlay(gen_random_uuid()::text PLACING $3 FROM 1 FOR 13) PLACING '7' FROM 15 FOR 1)::uuid AS i FROM generate_series(1, $1::int) n) x`,
		n, b.source, inbox.NewID(time.Now()).String()[:13])
	b.exec(`INSERT INTO inbox_body (class, id, headers, body) SELECT 'default', id, '{}', decode(repeat(replace(id::text, '-', ''), 128), 'hex') FROM inbox_event`)
	b.exec(`INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, state, reason, last_code, attempts)
		SELECT id, id, $1, 1, 'key-' || id, 'dead', 'attempts_exhausted', '503', 2 FROM inbox_event`, b.routes[repeatable])
	b.exec(`INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code, excerpt)
		SELECT e.id, n, 1, 'automatic', 'old', now(), now(), 'retry', '503', 'closed for the night' FROM effect e, generate_series(1, 2) n`)
	b.exec(`ANALYZE inbox_event, inbox_body, effect, effect_attempt`)
}

// The heap is looked at while the plan is made, after a collection: what it takes
// must not grow with the plan.
func BenchmarkReplayPlan(b *testing.B) {
	s := setup(b)
	s.buryMany(*deadLetters)
	r := s.replays(replay.Config{})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, next := heap(), uint64(0), 0
	b.ResetTimer()
	for b.Loop() {
		next = 0
		p, err := r.Plan(b.Context(), replay.PlanRequest{Scope: everything(), Actor: actor, Progress: func(items int) {
			if items >= next {
				most, next = max(most, heap()), items+*deadLetters/4
			}
		}})
		if err != nil || p.Summary.ToDo != *deadLetters {
			b.Fatalf("%+v, %v", p, err)
		}
	}
	b.ReportMetric(float64(*deadLetters)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(most-min(before, most))/(1<<20), "MiB-heap")
}

// The steps alone, without what then happens to the effects.
func BenchmarkReplaySteps(b *testing.B) {
	s := setup(b)
	s.buryMany(*deadLetters)
	r := s.replays(replay.Config{})
	for b.Loop() {
		b.StopTimer()
		s.exec(`DELETE FROM river_job`)
		s.exec(`UPDATE effect SET state = 'dead', reason = 'attempts_exhausted', next_at = NULL`)
		p := plan(b, r, everything(), replay.Options{})
		start(b, r, p)
		b.StartTimer()
		if n := run(b, r, p.ID); n != *deadLetters {
			b.Fatalf("%d items", n)
		}
	}
	b.ReportMetric(float64(*deadLetters)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
