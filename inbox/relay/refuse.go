package relay

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/pgtext"
)

// Emitted rows that can never be admitted. Stored: never change.
const (
	outboxSource   = "source"    // no process knows the source, or it is not open to emit any more
	outboxEventID  = "event_id"  // empty, too long, or of a form that is ours
	outboxType     = "type"      // too long
	outboxTooLarge = "too_large" // more than any process takes
)

// sweepEvery is how often the relay searches for rows of unknown sources.
const sweepEvery = time.Minute

// Rows of sources that another process may know are left to it for a while.
const refuseUnknown = `
WITH unknown AS MATERIALIZED (
    SELECT o.id FROM outbox o
    WHERE o.refused_at IS NULL AND o.source <> ALL ($1::text[]) AND o.created_at < now() - $2::interval
    ORDER BY o.id
    LIMIT 1000
    FOR UPDATE SKIP LOCKED)
UPDATE outbox o SET refused_at = now(), refusal = 'source' FROM unknown u WHERE o.id = u.id
RETURNING o.source`

// A source that is configured again is relayed, including the rows that were refused
// while it was not.
const takeBackKnown = `
UPDATE outbox SET refused_at = NULL, refusal = NULL
WHERE id IN (
    SELECT o.id FROM outbox o WHERE o.refused_at IS NOT NULL AND o.refusal = 'source' AND o.source = ANY ($1::text[])
    ORDER BY o.id LIMIT 1000 FOR UPDATE SKIP LOCKED)`

// sweep refuses rows whose source no process has known for a while, and takes back
// those whose source this one knows.
func (r *Relay) sweep(ctx context.Context) error {
	now := r.cfg.Clock.Now()
	if now.Before(r.sweepAt) {
		return nil
	}
	if _, err := r.cfg.Pool.Exec(ctx, takeBackKnown, r.names); err != nil {
		return err
	}
	rows, err := r.cfg.Pool.Query(ctx, refuseUnknown, r.names, r.cfg.Grace)
	if err != nil {
		return err
	}
	sources, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, source := range sources {
		counts[source]++
	}
	for source, n := range counts {
		r.logRefused(ctx, source, outboxSource, n)
	}
	if len(sources) < 1000 {
		r.sweepAt = now.Add(sweepEvery)
	}
	return nil
}

const refuseOutbox = `
UPDATE outbox o SET refused_at = now(), refusal = k.refusal
FROM unnest($1::bigint[], $2::text[]) AS k (id, refusal)
WHERE o.id = k.id`

// refuseTx refuses the rows that the gate could never admit under their own ids, and
// returns the others. emit accepts no such rows: they were written without it, or under
// an older version of it.
func (r *Relay) refuseTx(ctx context.Context, tx pgx.Tx, rows []outboxRow) (left []outboxRow, err error) {
	var ids []int64
	var refusals []string
	for i := range rows {
		event := &rows[i]
		why := ""
		switch {
		case event.Bytes > maxPayload:
			why = outboxTooLarge
		case !pgtext.Storable(event.EventID) || strings.HasPrefix(event.EventID, "~"):
			why = outboxEventID
		case !pgtext.Storable(event.Type):
			why = outboxType
		}
		if why == "" {
			left = append(left, *event)
			continue
		}
		ids, refusals = append(ids, event.ID), append(refusals, why)
		r.logRefused(ctx, event.Source, why, 1)
	}
	if len(ids) == 0 {
		return rows, nil
	}
	if _, err := tx.Exec(ctx, refuseOutbox, ids, refusals); err != nil {
		return nil, err
	}
	return left, nil
}

func (r *Relay) logRefused(ctx context.Context, source, why string, n int) {
	r.refused.Add(uint64(n))
	r.cfg.Logger.WarnContext(ctx, "emitted events refused; `oncegate outbox list --refused` shows them",
		slog.String("source", source), slog.String("reason", why), slog.Int("events", n))
}
