package rollup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

const (
	// batchRows is how many counts one statement writes.
	batchRows = 5000

	// joinCells is how many counts may wait before minutes are joined to hours.
	joinCells = 100_000
)

// cell is one count of a minute, given by its first second since 1970.
type cell struct {
	place
	kind   Kind
	minute int64
}

type sourceTenant struct {
	source int32
	tenant string
}

type times struct{ first, last time.Time }

// pending are the counts that are in no batch yet.
type pending struct {
	counts map[cell]int64
	times  map[sourceTenant]times
}

func newPending() pending {
	return pending{counts: map[cell]int64{}, times: map[sourceTenant]times{}}
}

func (p *pending) addTimes(at sourceTenant, first, last time.Time) {
	known, ok := p.times[at]
	if !ok || first.Before(known.first) {
		known.first = first
	}
	if last.After(known.last) {
		known.last = last
	}
	p.times[at] = known
}

// join adds minutes up to hours, so that an outage of the database cannot fill the memory.
func (p *pending) join() {
	joined := make(map[cell]int64, len(p.counts)/60)
	for at, n := range p.counts {
		at.minute -= at.minute % 3600
		joined[at] += n
	}
	p.counts = joined
}

// batch is the content of one statement. It never changes once it was sent.
type batch struct {
	number int64
	rows   []batchRow
	times  []timesRow
}

type batchRow struct {
	cell
	n int64
}

type timesRow struct {
	sourceTenant
	times
}

var batchColumns = row.ColumnsFrom(4,
	row.Int("source_id", func(r *batchRow) int32 { return r.source }),
	row.Text("kind", func(r *batchRow) string { return r.kind.String() }),
	row.Time("minute", func(r *batchRow) time.Time { return time.Unix(r.minute, 0) }),
	row.Int("route_id", func(r *batchRow) int32 { return r.route }),
	row.Text("tenant", func(r *batchRow) string { return r.tenant }),
	row.Bigint("n", func(r *batchRow) int64 { return r.n }),
)

var timesColumns = row.ColumnsFrom(batchColumns.Next(),
	row.Int("source_id", func(r *timesRow) int32 { return r.source }),
	row.Text("tenant", func(r *timesRow) string { return r.tenant }),
	row.Time("first_event_at", func(r *timesRow) time.Time { return r.first }),
	row.Time("last_event_at", func(r *timesRow) time.Time { return r.last }),
)

// writeBatch adds a batch to the counts. A batch and its number are one statement, and so one transaction. A batch that is sent again finds its number and
// then adds nothing. If the first one has not ended, the second waits for the row of its process and checks it again.
// Rows are written in the order of their keys, so that processes that add to the same ones wait for each other instead
// of ending in a deadlock.
var writeBatch = writeBatchOf(`WHERE f.batch < excluded.batch`)

// writeBatchOf is the statement with the condition under which a batch is new.
func writeBatchOf(unknown string) string {
	return `
WITH marker AS (
    INSERT INTO stat_flush AS f (node_id, batch, flushed_at) VALUES ($1, $2, $3)
    ON CONFLICT ON CONSTRAINT stat_flush_pkey DO UPDATE
    SET batch = excluded.batch, flushed_at = excluded.flushed_at
    ` + unknown + `
    RETURNING 1),
counted AS MATERIALIZED (
    SELECT k.* FROM unnest(` + batchColumns.Arrays() + `) AS k (` + batchColumns.Names() + `) WHERE EXISTS (SELECT FROM marker)),
minutes AS (
    INSERT INTO stat_minute AS m (source_id, kind, minute, route_id, tenant, n)
    SELECT source_id, kind, minute, route_id, tenant, n FROM counted
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT ON CONSTRAINT stat_minute_pkey DO UPDATE SET n = m.n + excluded.n),
hours AS (
    INSERT INTO stat_hour AS h (source_id, kind, hour, route_id, tenant, n)
    SELECT source_id, kind, date_bin('1 hour', minute, 'epoch'), route_id, tenant, sum(n) FROM counted
    GROUP BY 1, 2, 3, 4, 5
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT ON CONSTRAINT stat_hour_pkey DO UPDATE SET n = h.n + excluded.n)
INSERT INTO stat_source AS s (source_id, tenant, first_event_at, last_event_at)
SELECT k.* FROM unnest(` + timesColumns.Arrays() + `) AS k (` + timesColumns.Names() + `) WHERE EXISTS (SELECT FROM marker)
ORDER BY 1, 2
ON CONFLICT ON CONSTRAINT stat_source_pkey DO UPDATE
SET first_event_at = least(s.first_event_at, excluded.first_event_at), last_event_at = greatest(s.last_event_at, excluded.last_event_at)`
}

// Flush writes the counts until now. If it fails, nothing is lost: the next flush begins with the same batch under the
// same number.
func (r *Recorder) Flush(ctx context.Context) error {
	select {
	case r.flushing <- struct{}{}:
		defer func() { <-r.flushing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	now := r.cfg.Now()
	for _, c := range r.all() {
		c.take(now, &r.pending)
	}
	if len(r.pending.counts) > joinCells {
		r.pending.join()
	}
	for r.batch != nil || len(r.pending.counts) > 0 || len(r.pending.times) > 0 {
		if r.batch == nil {
			r.batch = r.nextBatch()
		}
		if err := r.write(ctx, r.batch, now); err != nil {
			return fmt.Errorf("writing counts: %w", err)
		}
		r.batch = nil
	}
	return nil
}

// nextBatch moves the pending counts, or as many of them as fit, into a batch.
func (r *Recorder) nextBatch() *batch {
	r.number++
	b := &batch{number: r.number}
	for at, n := range r.pending.counts {
		if len(b.rows) == batchRows {
			break
		}
		b.rows = append(b.rows, batchRow{at, n})
		delete(r.pending.counts, at)
	}
	for at, t := range r.pending.times {
		b.times = append(b.times, timesRow{at, t})
	}
	clear(r.pending.times)
	slices.SortFunc(b.rows, func(x, y batchRow) int {
		return cmp.Or(cmp.Compare(x.source, y.source), cmp.Compare(x.kind, y.kind), cmp.Compare(x.minute, y.minute))
	})
	return b
}

func (r *Recorder) write(ctx context.Context, b *batch, now time.Time) error {
	args := batchColumns.Append([]any{r.cfg.Node, b.number, now}, b.rows)
	return r.exec(ctx, r.cfg.statement, timesColumns.Append(args, b.times)...)
}
