package prune

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// removableStream is the condition for deleting a stream s. A stream goes when nothing has moved it for as long as tombstones live, nothing
// is in flight, missing or blocking, and no guard needs it.
func removableStream(without ...string) string {
	return `
    s.in_flight IS NULL AND s.blocked_by IS NULL AND s.gap_since IS NULL
    AND EXISTS (
        SELECT FROM unnest($1::int[], $2::timestamptz[]) AS r (id, idle)
        WHERE r.id = s.route_id AND s.updated_at < r.idle)` +
		inbox.KeptRows("stream", strings.NewReplacer(tableNames()...), without...)
}

func lockDueStreams(without ...string) string {
	return `
WITH page AS MATERIALIZED (
    SELECT id FROM stream WHERE id > $3::bigint ORDER BY id LIMIT $4),
due AS MATERIALIZED (
    SELECT s.id
    FROM page p
    JOIN stream s ON s.id = p.id
    WHERE ` + removableStream(without...) + `
    ORDER BY s.id
    FOR UPDATE OF s SKIP LOCKED)
SELECT (SELECT count(*) FROM page), (SELECT max(id) FROM page), coalesce((SELECT array_agg(id) FROM due), '{}')`
}

func deleteStreams(without ...string) string {
	return `DELETE FROM stream s WHERE s.id = ANY ($3::bigint[]) AND ` + removableStream(without...)
}

// The key of a stream that stays is kept for people no longer than an effect of it: with the
// last one went what could name the stream when an event is erased.
const eraseIdleStreamKeys = `
WITH idle AS MATERIALIZED (
    SELECT s.id
    FROM stream s
    WHERE s.id > $3::bigint AND s.id <= $4::bigint AND (s.key_label IS NOT NULL OR s.key_label_sealed IS NOT NULL)
        AND EXISTS (
            SELECT FROM unnest($1::int[], $2::timestamptz[]) AS r (id, idle)
            WHERE r.id = s.route_id AND s.updated_at < r.idle)
        AND NOT EXISTS (SELECT FROM effect e WHERE e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash)
    ORDER BY s.id
    FOR UPDATE OF s SKIP LOCKED)
UPDATE stream s
SET key_label = NULL, key_label_sealed = NULL, key_label_key_id = NULL
FROM idle i
WHERE s.id = i.id`

// streams removes idle streams. An index by idleness would have to be kept up by
// every effect of every stream, so all of them are looked at, once a day.
func (s *pass) streams(ctx context.Context) error {
	var routes []int32
	var idle []time.Time
	for id, h := range s.retention.routes {
		if h != (Horizons{}) {
			routes, idle = append(routes, id), append(idle, s.retention.now.Add(-h.Tombstone-tombstoneSlack))
		}
	}
	return s.runWalk(ctx, &walk{
		name: "stream", table: "stream", first: "0", restartAfter: restartEvery, patient: true,
		batch: func(ctx context.Context, tx pgx.Tx, position string, n int) (batchResult, error) {
			after, err := strconv.ParseInt(position, 10, 64)
			if err != nil {
				return batchResult{}, err
			}
			var got batchResult
			var last *int64
			var ids []int64
			if err := tx.QueryRow(ctx, s.sql.lockStreams, routes, idle, after, n).Scan(&got.examined, &last, &ids); err != nil {
				return batchResult{}, err
			}
			if last != nil {
				got.last = strconv.FormatInt(*last, 10)
				if _, err := tx.Exec(ctx, eraseIdleStreamKeys, routes, idle, after, *last); err != nil {
					return batchResult{}, err
				}
			}
			if len(ids) == 0 {
				return got, nil
			}
			tag, err := tx.Exec(ctx, s.sql.deleteStreams, routes, idle, ids)
			got.removed = tag.RowsAffected()
			return got, err
		},
	})
}
