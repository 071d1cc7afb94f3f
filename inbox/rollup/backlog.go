package rollup

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Backlog is what waits for a route at one moment.
type Backlog struct {
	// Source and Route are ids.
	Source, Route int32

	// Waiting is how many effects wait for an attempt, and Oldest how long ago the oldest of them was recorded.
	Waiting int
	Oldest  time.Duration
}

// The kinds of samples. Their n is no sum of what happened: the sample of a minute is taken once, and that of an hour is the
// largest one. Stored: never change.
const (
	waitingKind = "waiting"
	oldestKind  = "waiting_seconds"
)

// Every process takes the samples. The first one of a minute stays, so that a minute has the same sample whoever reads it, and
// an hour has the largest one.
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

// WriteBacklog keeps what waits for the routes at a moment. A route for which nothing waits need not be among them: where there is no
// sample, nothing waited.
func WriteBacklog(ctx context.Context, db Executor, at time.Time, all []Backlog) error {
	if len(all) == 0 {
		return nil
	}
	_, err := db.Exec(ctx, writeBacklog, backlogColumns.Append([]any{at}, all)...)
	if err != nil {
		return fmt.Errorf("writing what waits: %w", err)
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
