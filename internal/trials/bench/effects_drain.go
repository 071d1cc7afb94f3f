package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/lab"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

// The subjects that are drained.
const (
	subjectSQL       = "sql"
	subjectForward   = "forward"
	subjectPublish   = "publish"
	subjectRiverSQL  = "river-sql"
	subjectRiverNoop = "river-noop"
)

// drainSubject is a backlog, and what works it off.
type drainSubject struct {
	name, about string

	// target is the effects' target in our configuration; empty for River's own jobs.
	target string
}

// drains is the testbed with what backlogs need.
type drains struct {
	effectsOptions
	*testbed
	target *rig.Target
	stream string // the configuration of a target at a broker
	runs   uint32
}

func (d *drains) subjects() []drainSubject {
	all := []drainSubject{
		{subjectRiverNoop, "River, jobs that do nothing", ""},
		{subjectSQL, "oncegate, one row each, exactly once", "{ kind: sql, call: bench.apply_event }"},
		{subjectRiverSQL, "River, the same SQL and JobCompleteTx", ""},
		{subjectForward, "oncegate, a local target that answers at once", fmt.Sprintf("{ kind: forward, url: \"http://%s/\", idempotent: true }", d.target.Address)},
		{subjectPublish, "oncegate, a stream of NATS in memory", d.stream},
	}
	for _, s := range all {
		if s.name == d.only {
			return []drainSubject{s}
		}
	}
	return all
}

const drainTables = `
CREATE SCHEMA bench;
CREATE TABLE bench.applied (event text PRIMARY KEY, what jsonb);
CREATE FUNCTION bench.apply_event(event jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO bench.applied VALUES (event->>'id', event->'body') ON CONFLICT DO NOTHING $$`

func (d *drains) setUp(ctx context.Context) error {
	if _, err := d.db.Exec(ctx, drainTables); err != nil {
		return fmt.Errorf("making the target's table: %w", err)
	}
	var err error
	d.target, err = rig.StartTarget(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a caller that goes away does not matter here
	}))
	if err != nil {
		return err
	}
	if d.stream, err = startStream(ctx, d.Dir); err != nil {
		return err
	}
	if d.only != "" && len(d.subjects()) != 1 {
		return fmt.Errorf("--only %q is unknown; known are %s", d.only, strings.Join([]string{subjectSQL, subjectForward, subjectPublish, subjectRiverSQL, subjectRiverNoop}, ", "))
	}
	return nil
}

const drainConfiguration = `
targets:
  it: %s
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes: [{ name: %s, types: ["*"], target: it }]
`

// measureDrain makes a backlog, waits until it is worked off, and records how fast that was. The rates are computed
// from the times in the rows, so that starting a process costs no subject anything.
func (d *drains) measureDrain(ctx context.Context, s drainSubject, out *drained) (err error) {
	if _, err := d.db.Exec(ctx, `TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.effect_attempt, oncegate.river_job, bench.applied`); err != nil {
		return fmt.Errorf("emptying the tables: %w", err)
	}
	start, measure := d.startRiver, riverSpan
	if s.target != "" {
		start, measure = d.startOurs, effectSpan
	}
	worker, err := start(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.Stop(30*time.Second)) }()
	postgres, err := lab.FamilyCPU(d.Server.PID())
	if err != nil {
		return err
	}
	if err := d.waitUntilDrained(ctx, worker, drainLeft); err != nil {
		return err
	}
	own, err1 := lab.CPU(worker.PID())
	after, err2 := lab.FamilyCPU(d.Server.PID())
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var done int
	var seconds float64
	if err := d.db.QueryRow(ctx, measure).Scan(&done, &seconds); err != nil {
		return fmt.Errorf("reading the times: %w", err)
	}
	if done != d.effects {
		return fmt.Errorf("%d of %d are done", done, d.effects)
	}
	if strings.HasSuffix(s.name, subjectSQL) {
		if err := d.db.QueryRow(ctx, `SELECT count(*) FROM bench.applied`).Scan(&done); err != nil || done != d.effects {
			return fmt.Errorf("%d of %d were applied: %w", done, d.effects, err)
		}
	}
	out.PerSecond = append(out.PerSecond, float64(d.effects)/seconds)
	out.WorkerCPU = append(out.WorkerCPU, float64(own.Microseconds())/float64(d.effects))
	out.ServerCPU = append(out.ServerCPU, float64((after-postgres).Microseconds())/float64(d.effects))
	return nil
}

const effectSpan = `
SELECT count(*) FILTER (WHERE outcome = 'done'), extract(epoch FROM max(finished_at) - min(started_at))::float8
FROM oncegate.effect_attempt`

const riverSpan = `
SELECT count(*) FILTER (WHERE state = 'completed'), extract(epoch FROM max(finalized_at) - min(attempted_at))::float8
FROM oncegate.river_job`

// This query uses a partial index that has no completed jobs.
const drainLeft = `
SELECT EXISTS (SELECT FROM oncegate.river_job WHERE state IN ('available', 'running', 'scheduled', 'retryable'))`

// waitUntilDrained waits until a query says that nothing is left for the worker.
func (d *drains) waitUntilDrained(ctx context.Context, worker *rig.Process, countsLeft string) error {
	return rig.Poll(ctx, 100*time.Millisecond, 5*time.Minute, "the backlog", func() (bool, error) {
		if !worker.Running() {
			return false, fmt.Errorf("the worker ended: %w (log: %s)", worker.Err(), rig.TailFile(d.log("work"))+rig.TailFile(d.log("river")))
		}
		var left bool
		err := d.db.QueryRow(ctx, countsLeft).Scan(&left)
		return !left, err
	})
}

// startOurs receives the deliveries over HTTP, and then starts the worker.
func (d *drains) startOurs(ctx context.Context, s drainSubject) (*rig.Process, error) {
	config, err := d.WriteFile(s.name+".yml", fmt.Sprintf(drainConfiguration, s.target, s.name))
	if err != nil {
		return nil, err
	}
	receiver, err := d.serve(ctx, config, "receive", d.env...)
	if err != nil {
		return nil, err
	}
	d.runs++
	if err := deliver(ctx, receiver.Public, d.runs, d.effects); err != nil {
		return nil, err
	}
	if err := receiver.Stop(30 * time.Second); err != nil {
		return nil, err
	}
	if err := d.checkpoint(ctx); err != nil {
		return nil, err
	}
	worker, err := d.serve(ctx, config, "work", d.env...)
	if err != nil {
		return nil, err
	}
	return worker.Process, nil
}

// checkpoint makes the server vacuum and analyse the tables, so that its planner knows of the backlog, and then
// write all changed pages to disk.
func (d *drains) checkpoint(ctx context.Context) error {
	for _, statement := range []string{`VACUUM ANALYZE oncegate.effect, oncegate.inbox_event, oncegate.river_job`, `CHECKPOINT`} {
		if _, err := d.db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("settling the tables: %w", err)
		}
	}
	return nil
}

// startRiver inserts the jobs and starts a process that only works them.
func (d *drains) startRiver(ctx context.Context, s drainSubject) (*rig.Process, error) {
	pool, err := session.OpenPool(ctx, d.DSN(), schema, session.PoolAdmin, 2)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return nil, fmt.Errorf("making River's client: %w", err)
	}
	for n := d.effects; n > 0; n -= 1000 {
		params := make([]river.InsertManyParams, min(n, 1000))
		for i := range params {
			args, err := riverArgs(s.name, n-i)
			if err != nil {
				return nil, err
			}
			params[i].Args = args
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return nil, fmt.Errorf("inserting jobs: %w", err)
		}
	}
	if err := d.checkpoint(ctx); err != nil {
		return nil, err
	}
	return d.self("river", "--database", d.DSN())
}

// riverArgs returns the arguments of one job: a number, or the document that our own sql target would get.
func riverArgs(subject string, n int) (river.JobArgs, error) {
	if subject == subjectRiverNoop {
		return noopArgs{N: n}, nil
	}
	document, err := sql.Document(&effect.Call{Event: effect.Event{
		ID: inbox.NewID(time.Now()).String(), Source: sourceName, Provider: sourceName, EventID: fmt.Sprintf("evt_%024d", n), Type: "invoice.paid",
		ReceivedAt: time.Now(), Body: newBody(bodySize),
	}, Route: "sql", Key: fmt.Sprintf("key_%024d", n)})
	if err != nil {
		return nil, fmt.Errorf("making a document: %w", err)
	}
	return sqlArgs{Document: json.RawMessage(document)}, nil
}

const readTransactions = `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`

// measureIdle counts the transactions that an idle process of both roles runs.
func (d *drains) measureIdle(ctx context.Context) (perSecond float64, err error) {
	if _, err := d.db.Exec(ctx, `TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.effect_attempt, oncegate.river_job`); err != nil {
		return 0, fmt.Errorf("emptying the tables: %w", err)
	}
	p, err := d.serve(ctx, filepath.Join(d.Dir, subjectForward+".yml"), "receive,work", d.env...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Stop(30*time.Second)) }()
	progress("watching an idle process for %s", d.idle)
	var before, after int64
	// The process has just started, and a backend may report its counts 10 s late.
	waitUntil(time.Now().Add(15 * time.Second))
	began := time.Now()
	if err := d.db.QueryRow(ctx, readTransactions).Scan(&before); err != nil {
		return 0, fmt.Errorf("counting transactions: %w", err)
	}
	waitUntil(began.Add(d.idle))
	if err := d.db.QueryRow(ctx, readTransactions).Scan(&after); err != nil {
		return 0, fmt.Errorf("counting transactions: %w", err)
	}
	return float64(after-before-1) / time.Since(began).Seconds(), nil
}
