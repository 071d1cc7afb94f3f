package prune

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// replayRetention is how long replay plans and their outcomes are kept.
const replayRetention = 90 * 24 * time.Hour

// Refusals neither refer to other rows nor are referred to: the oldest of each source
// are deleted first.
const deleteRefusals = `
WITH due AS MATERIALIZED (
    SELECT f.id
    FROM unnest($1::int[], $2::uuid[]) AS s (id, cutoff)
    CROSS JOIN LATERAL (
        SELECT r.id FROM refusal r WHERE r.source_id = s.id AND r.id < s.cutoff ORDER BY r.id LIMIT $3 FOR UPDATE SKIP LOCKED) f
    LIMIT $3)
DELETE FROM refusal r USING due WHERE r.id = due.id`

// The horizon of a conflict's payload counts from its last delivery, because each
// delivery until then was acknowledged again. The least recently seen of each source are
// deleted first.
const deleteConflicts = `
WITH due AS MATERIALIZED (
    SELECT f.id
    FROM unnest($1::int[], $2::timestamptz[]) AS s (id, cutoff)
    CROSS JOIN LATERAL (
        SELECT c.id FROM conflict c WHERE c.source_id = s.id AND c.last_seen_at < s.cutoff ORDER BY c.last_seen_at LIMIT $3 FOR UPDATE SKIP LOCKED) f
    LIMIT $3)
DELETE FROM conflict c USING due WHERE c.id = due.id`

// Replays that have ended, with their items first, because there may be very many. The
// outcome of an item is deleted with it and not counted separately.
const (
	deleteReplayItems = `
WITH over AS MATERIALIZED (
    SELECT r.id FROM replay r
    WHERE r.id < $1::uuid AND (r.state IN ('done', 'cancelled', 'expired') OR r.state = 'planned' AND r.expires_at < now())
    ORDER BY r.id
    LIMIT 10),
due AS MATERIALIZED (
    SELECT f.replay_id, f.position
    FROM over
    CROSS JOIN LATERAL (
        SELECT i.replay_id, i.position FROM replay_item i WHERE i.replay_id = over.id ORDER BY i.position LIMIT $2 FOR UPDATE SKIP LOCKED) f
    LIMIT $2),
outcomes AS (
    DELETE FROM replay_outcome o USING due WHERE o.replay_id = due.replay_id AND o.position = due.position)
DELETE FROM replay_item i USING due WHERE i.replay_id = due.replay_id AND i.position = due.position`

	deleteReplays = `
WITH due AS MATERIALIZED (
    SELECT r.id FROM replay r
    WHERE r.id < $1::uuid AND (r.state IN ('done', 'cancelled', 'expired') OR r.state = 'planned' AND r.expires_at < now())
        AND NOT EXISTS (SELECT FROM replay_item i WHERE i.replay_id = r.id)
    ORDER BY r.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED)
DELETE FROM replay r USING due WHERE r.id = due.id`

	deleteSuppressions = `
WITH due AS MATERIALIZED (
    SELECT x.id FROM suppression x WHERE x.expires_at < $1 ORDER BY x.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM suppression x USING due WHERE x.id = due.id`

	deleteAudits = `
WITH due AS MATERIALIZED (
    SELECT a.id FROM audit a WHERE a.id < $1::uuid ORDER BY a.id LIMIT $2 FOR UPDATE SKIP LOCKED)
DELETE FROM audit a USING due WHERE a.id = due.id`
)

// drain removes rows from the front of a table in which every row past its horizon may
// be deleted. It stores no position between passes.
func (s *pass) drain(ctx context.Context, table, sql string, args ...any) error {
	w := &walk{name: table, table: table, batch: func(ctx context.Context, tx pgx.Tx, _ string, n int) (batchResult, error) {
		tag, err := tx.Exec(ctx, sql, append(slices.Clip(args), n)...)
		removed := tag.RowsAffected()
		return batchResult{examined: int(removed), due: int(removed), removed: removed}, err
	}}
	_, err := s.batches(ctx, w, new(string))
	return err
}

func (s *pass) refusals(ctx context.Context) error {
	var sources []int32
	var cutoffs []inbox.ID
	for _, source := range s.retention.sources {
		if source.Keep.Refusals > 0 {
			sources, cutoffs = append(sources, source.ID), append(cutoffs, s.retention.cutoff(source.Keep.Refusals))
		}
	}
	return s.drain(ctx, "refusal", deleteRefusals, sources, cutoffs)
}

func (s *pass) conflicts(ctx context.Context) error {
	if s.withoutArchive {
		return nil
	}
	var sources []int32
	var cutoffs []time.Time
	for _, source := range s.retention.sources {
		if source.Keep.Body > 0 {
			sources, cutoffs = append(sources, source.ID), append(cutoffs, s.retention.now.Add(-source.Keep.Body))
		}
	}
	if s.cfg.Archive.Configured() {
		return s.archiveConflicts(ctx, sources, cutoffs)
	}
	return s.drain(ctx, "conflict", deleteConflicts, sources, cutoffs)
}

func (s *pass) replays(ctx context.Context) error {
	cutoff := s.retention.cutoff(replayRetention)
	if err := s.drain(ctx, "replay_item", deleteReplayItems, cutoff); err != nil {
		return err
	}
	return s.drain(ctx, "replay", deleteReplays, cutoff)
}

// suppressions removes suppressions that have expired.
func (s *pass) suppressions(ctx context.Context) error {
	return s.drain(ctx, "suppression", deleteSuppressions, s.retention.now)
}

// audits uses the longest horizon of all classes, because decisions about a source
// outlive it.
func (s *pass) audits(ctx context.Context) error {
	if s.retention.longest.Audit == 0 {
		return nil
	}
	return s.drain(ctx, "audit", deleteAudits, s.retention.cutoff(s.retention.longest.Audit))
}
