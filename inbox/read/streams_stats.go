package read

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// StreamStats counts the streams of one route by state.
type StreamStats struct {
	// Held counts effects that wait, among the first 10,000 that are not settled. Gaps
	// counts keys that wait for a missing number, among the 10,000 that have waited
	// longest. Blocked counts keys that an effect at rest blocks, up to 10,000.
	Held, Gaps, Blocked int

	// OldestGap is how long the oldest missing number has been waited for; 0 without
	// one.
	OldestGap time.Duration

	// Long are the oldest gaps that have lasted longer than was asked, at most 100.
	Long []LongGap
}

// Plus returns the stats of the streams of both.
func (s StreamStats) Plus(o StreamStats) StreamStats {
	return StreamStats{
		Held: s.Held + o.Held, Gaps: s.Gaps + o.Gaps, Blocked: s.Blocked + o.Blocked,
		OldestGap: max(s.OldestGap, o.OldestGap), Long: slices.Concat(s.Long, o.Long),
	}
}

// LongGap is a stream that has waited long for a missing number.
type LongGap struct {
	Stream int64
	Since  time.Time
}

const (
	maxLongGaps = 100
)

// Each part reads a partial index, and no further than its bound. Held effects are
// counted among that many open effects, so a backlog before them hides some. Gaps are
// read oldest first, for all routes.
const readStreamStats = `
WITH gap AS MATERIALIZED (
    SELECT route_id, gap_since
    FROM stream
    WHERE gap_since IS NOT NULL
    ORDER BY gap_since
    LIMIT $2)
SELECT
    (SELECT count(*) FILTER (WHERE h.state = 'held')
    FROM (SELECT e.state
        FROM effect e
        WHERE e.route_id = $1 AND e.sequence_key_hash IS NOT NULL AND e.state IN ('pending', 'claimed', 'retry', 'held', 'indeterminate')
        LIMIT $2) h),
    (SELECT count(*) FROM gap WHERE route_id = $1),
    (SELECT count(*) FROM (SELECT FROM stream WHERE route_id = $1 AND blocked_by IS NOT NULL LIMIT $2) b),
    coalesce((extract(epoch FROM now() - (SELECT min(gap_since) FROM gap WHERE route_id = $1)) * 1000000)::bigint, 0)`

const readLongGaps = `
SELECT id, gap_since
FROM stream
WHERE route_id = $1 AND gap_since <= now() - $2::bigint * interval '1 microsecond'
ORDER BY gap_since
LIMIT $3`

// CountStreams returns the counts of the streams of a route, and the gaps that have
// lasted longer than long.
func CountStreams(ctx context.Context, pool *pgxpool.Pool, route int32, long time.Duration) (StreamStats, error) {
	var s StreamStats
	var oldest int64
	err := pool.QueryRow(ctx, readStreamStats, route, row.MaxCounted).Scan(&s.Held, &s.Gaps, &s.Blocked, &oldest)
	if err != nil {
		return s, fmt.Errorf("counting streams: %w", err)
	}
	s.OldestGap = max(time.Duration(oldest)*time.Microsecond, 0)
	if s.OldestGap < long || s.Gaps == 0 {
		return s, nil
	}
	rows, err := pool.Query(ctx, readLongGaps, route, long.Microseconds(), maxLongGaps)
	if err != nil {
		return s, fmt.Errorf("reading gaps: %w", err)
	}
	if s.Long, err = pgx.CollectRows(rows, pgx.RowToStructByPos[LongGap]); err != nil {
		return s, fmt.Errorf("reading gaps: %w", err)
	}
	return s, nil
}
