package jobs_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// How fast a backlog is carried out at targets that do nothing: claim, attempt
// and settlement, recorded. Run with -benchtime=30000x.
func BenchmarkEffects(b *testing.B) {
	for _, route := range []string{repeatable, once, within} {
		b.Run(route, func(b *testing.B) {
			bundle := setup(b)
			bundle.admitMany(route, b.N)
			bundle.exec(`ANALYZE effect, inbox_event, river_job`)
			ended := make(chan struct{}, b.N)
			b.ResetTimer()
			bundle.client(jobs.Config{
				MaxWorkers: jobs.DefaultMaxWorkers, Logger: slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
				Transactionals: map[string]effect.Transactional{within: effect.HandlerFunc(func(context.Context, pgx.Tx, effect.Event) error { return nil })},
				Observe:        func(jobs.Report) { ended <- struct{}{} },
			})
			for range b.N {
				<-ended
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		})
	}
}
