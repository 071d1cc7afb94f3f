package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Backlog is a sample of the effects that wait for a route.
type Backlog struct {
	// Source and Route are ids.
	Source, Route int32

	// Waiting is how many effects wait for an attempt, and Oldest how long ago the oldest of them was recorded.
	Waiting int
	Oldest  time.Duration
}

// The kinds of samples. Samples are not added up: a minute keeps its first sample, and an hour keeps the largest one. Stored: never
// change.
const (
	waitingKind = "waiting"
	oldestKind  = "waiting_seconds"
)

// Every process takes samples. The unique constraint keeps the first sample of a minute, so later reads of the minute agree.
var writeBacklog = `
WITH sample AS MATERIALIZED (
    SELECT a.source_id, k.kind, date_bin('1 minute', $1::timestamptz, 'epoch') AS minute, a.route_id, k.n
    FROM unnest(` + backlogColumns.Arrays() + `) AS a (` + backlogColumns.Names() + `)
    CROSS JOIN LATERAL (VALUES ('` + waitingKind + `', a.waiting), ('` + oldestKind + `', a.oldest)) AS k (kind, n)),
minutes AS (
    INSERT INTO stat_minute (source_id, kind, minute, route_id, tenant, n)
    SELECT source_id, kind, minute, route_id, '', n FROM sample
    ORDER BY 1, 2, 3, 4
    ON CONFLICT ON CONSTRAINT stat_minute_pkey DO NOTHING)
INSERT INTO stat_hour AS h (source_id, kind, hour, route_id, tenant, n)
SELECT source_id, kind, date_bin('1 hour', minute, 'epoch'), route_id, '', n FROM sample
ORDER BY 1, 2, 3, 4
ON CONFLICT ON CONSTRAINT stat_hour_pkey DO UPDATE SET n = excluded.n WHERE h.n < excluded.n`

// WriteBacklog stores a sample for each of the routes. You can leave out a route for which nothing waits, because a missing sample
// counts as 0.
func WriteBacklog(ctx context.Context, db Executor, at time.Time, all []Backlog) error {
	if len(all) == 0 {
		return nil
	}
	_, err := db.Exec(ctx, writeBacklog, backlogColumns.Append([]any{at}, all)...)
	if err != nil {
		return fmt.Errorf("writing samples of the backlog: %w", err)
	}
	return nil
}

// backlogColumns follow the parameter of the moment.
var backlogColumns = row.ColumnsFrom(2,
	row.Int("source_id", func(b *Backlog) int32 { return b.Source }),
	row.Int("route_id", func(b *Backlog) int32 { return b.Route }),
	row.Bigint("waiting", func(b *Backlog) int64 { return int64(b.Waiting) }),
	row.Bigint("oldest", func(b *Backlog) int64 { return int64(b.Oldest.Seconds()) }),
)
