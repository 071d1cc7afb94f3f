package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
)

// What our own effects are compared with: River without Oncegate, with the same settings as our client.

type noopArgs struct {
	N int `json:"n"`
}

// Kind implements [river.JobArgs].
func (noopArgs) Kind() string { return subjectRiverNoop }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
}

// Work implements [river.Worker].
func (*noopWorker) Work(context.Context, *river.Job[noopArgs]) error { return nil }

type sqlArgs struct {
	Document json.RawMessage `json:"document"`
}

// Kind implements [river.JobArgs].
func (sqlArgs) Kind() string { return subjectRiverSQL }

type sqlWorker struct {
	river.WorkerDefaults[sqlArgs]
	pool *pgxpool.Pool
}

// Work implements [river.Worker]: the effect and the job's completion in one
// transaction.
func (w *sqlWorker) Work(ctx context.Context, job *river.Job[sqlArgs]) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT bench.apply_event($1::jsonb)`, []byte(job.Args.Document)); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// workRiver runs River's jobs until SIGTERM.
func workRiver(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("river", flag.ContinueOnError)
	database := flags.String("database", "", "connection string")
	connections := flags.Int("connections", 16, "of the workers' pool, the same as our own")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// The admin role leaves the planner's settings alone, as other programs do.
	pool, err := session.OpenPool(ctx, *database, schema, session.PoolAdmin, int32(*connections))
	if err != nil {
		return err
	}
	defer pool.Close()
	own, err := session.OpenPool(ctx, *database, schema, session.PoolAdmin, 8)
	if err != nil {
		return err
	}
	defer own.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{})
	river.AddWorker(workers, &sqlWorker{pool: pool})
	client, err := river.NewClient(riverpgxv5.New(own), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: jobs.DefaultMaxWorkers}}, Workers: workers,
		FetchCooldown: jobs.DefaultFetchCooldown, FetchPollInterval: jobs.DefaultFetchPollInterval,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return fmt.Errorf("making River's client: %w", err)
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("starting River: %w", err)
	}
	<-ctx.Done()
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return client.Stop(timed)
}
