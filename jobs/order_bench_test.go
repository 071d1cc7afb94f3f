package jobs_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/jobs"
)

// How fast a backlog of ordered effects is carried out, beside unordered ones: over
// many keys, and of one. Run with -benchtime=20000x.
func BenchmarkOrder(b *testing.B) {
	for _, c := range []struct {
		mode    sequence.Mode
		numbers int // of each key; 0 is one key for all
	}{{sequence.None, 1}, {sequence.Contiguous, 1}, {sequence.Contiguous, 10}, {sequence.Latest, 1}, {sequence.Contiguous, 0}} {
		b.Run(fmt.Sprintf("%s/%d", c.mode, c.numbers), func(b *testing.B) {
			bundle := setup(b)
			bundle.order = map[string]sequence.Policy{repeatable: {Mode: c.mode, Start: "1"}}
			bundle.admitMany(repeatable, b.N)
			numbers := c.numbers
			if numbers == 0 {
				numbers = b.N
			}
			bundle.exec(`
				WITH placed AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM effect)
				UPDATE effect e SET sequence_key_hash = sha256(convert_to('key ' || (p.place / $1), 'UTF8')), sequence_number = p.place % $1 + 1
				FROM placed p WHERE p.id = e.id`, numbers)
			bundle.exec(`INSERT INTO stream (route_id, key_hash) SELECT DISTINCT route_id, sequence_key_hash FROM effect`)
			bundle.exec(`VACUUM ANALYZE effect, inbox_event, river_job, stream`)
			ended := make(chan struct{}, b.N)
			b.ResetTimer()
			bundle.client(jobs.Config{
				MaxWorkers: jobs.DefaultMaxWorkers, Logger: slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
				Observe: func(r jobs.Report) {
					if r.State == inbox.EffectDone {
						ended <- struct{}{}
					}
				},
			})
			for range b.N {
				<-ended
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		})
	}
}
