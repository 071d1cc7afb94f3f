package prune

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/rollup"
)

const (
	// minuteRetention is how long counts by minute are kept. Counts by hour are kept as long as effects in the class
	// that keeps them longest.
	minuteRetention = 48 * time.Hour

	// flushRetention is how long the progress of a process in writing its counts is kept: far longer than it could send
	// a batch again.
	flushRetention = 30 * 24 * time.Hour
)

// statTable is a table of counts, whose key begins with the source, the kind and the time.
type statTable struct{ name, column string }

// deleteCounts takes the oldest of each source and kind first.
func (t statTable) deleteCounts() string {
	return `
WITH due AS MATERIALIZED (
    SELECT d.source_id, d.kind, d.at, d.route_id, d.tenant
    FROM source s
    CROSS JOIN unnest($2::text[]) AS one (kind)
    CROSS JOIN LATERAL (
        SELECT k.source_id, k.kind, k.` + t.column + ` AS at, k.route_id, k.tenant FROM ` + t.name + ` k
        WHERE k.source_id = s.id AND k.kind = one.kind AND k.` + t.column + ` < $1::timestamptz
        ORDER BY k.source_id, k.kind, k.` + t.column + ` LIMIT $3 FOR UPDATE SKIP LOCKED) d
    LIMIT $3)
DELETE FROM ` + t.name + ` k USING due
WHERE k.source_id = due.source_id AND k.kind = due.kind AND k.` + t.column + ` = due.at AND k.route_id = due.route_id AND k.tenant = due.tenant`
}

var (
	statMinutes = statTable{"stat_minute", "minute"}
	statHours   = statTable{"stat_hour", "hour"}
)

const (
	deleteFlushes = `
WITH due AS MATERIALIZED (
    SELECT f.node_id FROM stat_flush f WHERE f.flushed_at < $1::timestamptz LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM stat_flush f USING due WHERE f.node_id = due.node_id`
)

// statistics removes counts that are past their horizon.
func (s *pass) statistics(ctx context.Context) error {
	if err := s.drain(ctx, statMinutes.name, statMinutes.deleteCounts(), s.retention.now.Add(-minuteRetention), rollup.Names()); err != nil {
		return err
	}
	if s.retention.longest.Effects > 0 {
		hours := s.retention.now.Add(-s.retention.longest.Effects).Truncate(time.Hour)
		if err := s.drain(ctx, statHours.name, statHours.deleteCounts(), hours, rollup.Names()); err != nil {
			return err
		}
	}
	return s.drain(ctx, "stat_flush", deleteFlushes, s.retention.now.Add(-flushRetention))
}

const countStatistics = `
SELECT (SELECT count(*) FROM stat_minute WHERE minute < $1::timestamptz), (SELECT count(*) FROM stat_hour WHERE hour < $2::timestamptz),
    (SELECT count(*) FROM stat_flush WHERE flushed_at < $3::timestamptz)`

// countStatistics counts what statistics would remove.
func (s *pass) countStatistics(ctx context.Context, tx pgx.Tx) ([]Count, error) {
	hours := time.Time{}
	if s.retention.longest.Effects > 0 {
		hours = s.retention.now.Add(-s.retention.longest.Effects).Truncate(time.Hour)
	}
	minute, hour, flush := Count{Table: "stat_minute"}, Count{Table: "stat_hour"}, Count{Table: "stat_flush"}
	err := tx.QueryRow(ctx, countStatistics, s.retention.now.Add(-minuteRetention), hours, s.retention.now.Add(-flushRetention)).
		Scan(&minute.Rows, &hour.Rows, &flush.Rows)
	return []Count{minute, hour, flush}, err
}
