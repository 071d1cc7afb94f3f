package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// orders is the testbed of drains with backlogs of streams.
type orders struct {
	orderOptions
	*drains
}

const orderConfiguration = `
targets:
  it: %s
sources:
  stripe:
    provider: stripe
    secrets: [env:STRIPE_SECRET]
    routes: [{ name: it, types: ["*"], target: it, order: { mode: %s } }]
`

func (o *orders) configuration(s *orderSubject) (string, error) {
	target := "{ kind: sql, call: bench.apply_event }"
	if s.kind == subjectForward {
		target = fmt.Sprintf("{ kind: forward, url: \"http://%s/\", idempotent: true }", o.target.Address)
	}
	order := s.order
	switch order {
	case "latest":
		order += ", key: body.key, number: body.number"
	case "contiguous":
		order += ", key: body.key, number: body.number, start: 1"
	}
	return o.WriteFile("order.yml", fmt.Sprintf(orderConfiguration, target, order))
}

const emptyOrderTables = `
TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.effect_attempt, oncegate.river_job, oncegate.stream, bench.applied`

// From the first claim to the last settlement.
const orderSpan = `
SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done'),
    extract(epoch FROM max(finished_at) - (SELECT min(started_at) FROM oncegate.effect_attempt))::float8
FROM oncegate.effect`

// measureDrain makes a backlog, waits until it is worked off, and records how fast that was. It returns the largest
// memory that the worker has had, in MiB.
func (o *orders) measureDrain(ctx context.Context, s *orderSubject, out *drained) (memory float64, err error) {
	if _, err := o.db.Exec(ctx, emptyOrderTables); err != nil {
		return 0, fmt.Errorf("emptying the tables: %w", err)
	}
	return o.drain(ctx, s, out)
}

func (o *orders) drain(ctx context.Context, s *orderSubject, out *drained) (memory float64, err error) {
	config, err := o.configuration(s)
	if err != nil {
		return 0, err
	}
	receiver, err := o.serve(ctx, config, "receive", o.orderOptions.env...)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(o.deliver(ctx, receiver, s), receiver.Stop(30*time.Second)); err != nil {
		return 0, err
	}
	if err := o.checkpoint(ctx); err != nil {
		return 0, err
	}
	worker, err := o.serve(ctx, config, "work", o.orderOptions.env...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.Stop(30*time.Second)) }()
	postgres, err := lab.FamilyCPU(o.Server.PID())
	if err != nil {
		return 0, err
	}
	if err := o.waitUntilDrained(ctx, worker.Process, orderLeft); err != nil {
		return 0, err
	}
	own, err1 := lab.CPU(worker.PID())
	after, err2 := lab.FamilyCPU(o.Server.PID())
	memory, err3 := peakMemory(worker.Process)
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, err
	}
	var done, other int
	var seconds float64
	if err := o.db.QueryRow(ctx, orderSpan).Scan(&done, &other, &seconds); err != nil {
		return 0, fmt.Errorf("reading the times: %w", err)
	}
	if done != o.orderOptions.effects || other > 0 {
		return 0, fmt.Errorf("%d of %d are done, %d are not", done, o.orderOptions.effects, other)
	}
	n := float64(done)
	out.PerSecond = append(out.PerSecond, n/seconds)
	out.WorkerCPU = append(out.WorkerCPU, float64(own.Microseconds())/n)
	out.ServerCPU = append(out.ServerCPU, float64((after-postgres).Microseconds())/n)
	return memory, nil
}

// A held effect has no job, so this query counts effects and not jobs.
const orderLeft = `
SELECT EXISTS (SELECT FROM oncegate.effect WHERE state IN ('pending', 'claimed', 'retry', 'held'))`

// deliver sends the backlog. Several senders share the list, so the numbers of all keys arrive side by side and roughly
// in order.
func (o *orders) deliver(ctx context.Context, receiver *rig.Node, s *orderSubject) error {
	const senders = 64
	created := time.Now().Unix()
	filler := strings.Repeat("x", bodySize-200)
	keys := 1
	if s.eventsPerKey > 0 {
		keys = max(o.orderOptions.effects/s.eventsPerKey, 1)
	}
	o.runs++
	run := o.runs
	client := rig.NewClient(senders, 30*time.Second)
	defer client.CloseIdleConnections()
	err := rig.SendEach(ctx, o.orderOptions.effects, senders, func(ctx context.Context, n int) error {
		body := fmt.Appendf(nil, `{"id":"evt_%08d%08d","object":"event","created":%d,"type":"invoice.paid","key":"k%d","number":%d,"filler":"%s"}`,
			run, n, created, n%keys, n/keys+1, filler)
		status, err := rig.Deliver(ctx, client, receiver.SourceURL(sourceName), secretValue, body)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("a new event was answered %d", status)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delivering: %w", err)
	}
	return nil
}

const fillStreams = `
INSERT INTO oncegate.stream (route_id, key_hash, key_label, applied)
SELECT r.id, sha256(('crowd' || n)::bytea), 'crowd' || n, 1
FROM generate_series(1, $1::int) n, (SELECT min(id) AS id FROM oncegate.route) r`

const streamsSize = `SELECT pg_total_relation_size('oncegate.stream') / 1048576.0::float8`

// measureAmongStreams measures a backlog among many streams of the same route.
func (o *orders) measureAmongStreams(ctx context.Context) (*streamsReport, error) {
	progress("making %d streams", o.streams)
	if _, err := o.db.Exec(ctx, emptyOrderTables); err != nil {
		return nil, fmt.Errorf("emptying the tables: %w", err)
	}
	if _, err := o.db.Exec(ctx, fillStreams, o.streams); err != nil {
		return nil, fmt.Errorf("making streams: %w", err)
	}
	if _, err := o.db.Exec(ctx, `VACUUM ANALYZE oncegate.stream`); err != nil {
		return nil, fmt.Errorf("settling the streams: %w", err)
	}
	report := &streamsReport{Rows: o.streams}
	if err := o.db.QueryRow(ctx, streamsSize).Scan(&report.MiB); err != nil {
		return nil, fmt.Errorf("measuring the streams: %w", err)
	}
	var out drained
	var err error
	if report.PeakMiB, err = o.drain(ctx, &orderSubject{subjectSQL, "contiguous", o.eventsPerKey}, &out); err != nil {
		return nil, fmt.Errorf("among %d streams: %w", o.streams, err)
	}
	report.PerSecond = out.PerSecond[0]
	progress("among %d streams %.0f/s", o.streams, report.PerSecond)
	return report, nil
}
