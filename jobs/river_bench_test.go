package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

const applyFunction = `
CREATE TABLE applied (event text PRIMARY KEY, what jsonb);
CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO applied VALUES (event->>'id', event->'body') ON CONFLICT DO NOTHING $$`

// How fast effects of kind sql are carried out, beside a River worker that runs
// the same SQL and JobCompleteTx, one job at a time, on a pool of the same size.
// Run with -benchtime=20000x.
func BenchmarkSQL(b *testing.B) {
	b.Run("oncegate", func(b *testing.B) {
		bundle := setup(b)
		bundle.exec(applyFunction)
		bundle.admitMany(within, b.N)
		bundle.exec(`ANALYZE effect, inbox_event, river_job`)
		kind, err := sql.New(sql.Config{Call: "apply_event"})
		if err != nil {
			b.Fatal(err)
		}
		ended := make(chan struct{}, b.N)
		b.ResetTimer()
		bundle.client(jobs.Config{
			MaxWorkers: jobs.DefaultMaxWorkers, Logger: slog.New(slog.NewTextHandler(b.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
			Transactionals: map[string]effect.Transactional{within: kind},
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
		b.StopTimer()
		if n := bundle.count(`SELECT count(*) FROM applied`); n != b.N {
			b.Fatalf("%d applied of %d", n, b.N)
		}
	})
	b.Run("river", func(b *testing.B) {
		url, schema := inboxtest.Schema(b)
		pool := inboxtest.Open(b, url, schema, session.PoolAdmin, 8)
		own := inboxtest.Open(b, url, schema, session.PoolAdmin, 8)
		if _, err := pool.Exec(b.Context(), applyFunction); err != nil {
			b.Fatal(err)
		}
		ended := make(chan struct{}, b.N)
		workers := river.NewWorkers()
		river.AddWorker(workers, &sqlWorker{pool: pool, ended: ended})
		client, err := river.NewClient(riverpgxv5.New(own), &river.Config{
			Queues: map[string]river.QueueConfig{"default": {MaxWorkers: jobs.DefaultMaxWorkers}}, Workers: workers,
			FetchCooldown: jobs.DefaultFetchCooldown, FetchPollInterval: jobs.DefaultFetchPollInterval, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		document, err := sql.Document(&effect.Call{Event: effect.Event{ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: "shop", Provider: "test", Type: "test.happened", ReceivedAt: time.Now(), Body: []byte(`{"paid":1}`)}})
		if err != nil {
			b.Fatal(err)
		}
		for n := b.N; n > 0; n -= 5000 {
			params := make([]river.InsertManyParams, min(n, 5000))
			for i := range params {
				params[i] = river.InsertManyParams{Args: sqlArgs{N: n - i, Document: document}}
			}
			if _, err := client.InsertManyFast(b.Context(), params); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := pool.Exec(b.Context(), `ANALYZE river_job`); err != nil {
			b.Fatal(err)
		}
		b.ResetTimer()
		if err := client.Start(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
		for range b.N {
			<-ended
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
		b.StopTimer()
		if err := client.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
	})
}

type sqlArgs struct {
	N        int             `json:"n"`
	Document json.RawMessage `json:"document"`
}

func (sqlArgs) Kind() string { return "sql" }

type sqlWorker struct {
	river.WorkerDefaults[sqlArgs]
	pool  *pgxpool.Pool
	ended chan struct{}
}

func (w *sqlWorker) Work(ctx context.Context, job *river.Job[sqlArgs]) error {
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT apply_event(jsonb_set($1::jsonb, '{id}', to_jsonb($2::text)))`, []byte(job.Args.Document), fmt.Sprint(job.ID)); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
	if err == nil {
		w.ended <- struct{}{}
	}
	return err
}
