package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// decisionTexts returns the audit actions that count as decisions, each with the text for
// the detail of an item.
func decisionTexts() map[inbox.AuditAction]string {
	return map[inbox.AuditAction]string{
		inbox.AuditResolveDone:   "resolved as done",
		inbox.AuditResolveResend: "resolved to be sent again",
		inbox.AuditDiscard:       "discarded",
		inbox.AuditMove:          "moved to another route",
		inbox.AuditStreamSkip:    "skipped in its stream",
		inbox.AuditStreamUnblock: "passed over in its stream",
		inbox.AuditOrderApply:    "set going",
		inbox.AuditOrderSkip:     "skipped",
		inbox.AuditPrune:         "pruned",
		inbox.AuditErase:         "its event was erased",
		inbox.AuditDiscardEvent:  "its event was discarded",
		inbox.AuditConflictAdmit: "another payload of its event was admitted",
	}
}

// The statement finds, for each item, the newest decision about its effect or event since the
// plan. It compares an audit entry by the revision of the effect, if the entry has one. It
// compares entries about the event by time, and allows a minute, because an entry has the time at
// which its transaction began. An older decision that falls within that minute changes only the
// item's detail, because the effect had changed anyway. OFFSET makes PostgreSQL look up each object
// by itself; otherwise the planner would walk the audit back from its end to avoid sorting a few rows.
var readDecisions = `
SELECT a.position, d.action, d.actor, d.at, coalesce(d.reason, '')
FROM unnest(` + doubtedColumns.Arrays() + `) AS a (` + doubtedColumns.Names() + `)
LEFT JOIN effect e ON e.id = a.effect_id
CROSS JOIN LATERAL (
    SELECT u.action, u.actor, u.at, u.reason
    FROM unnest(ARRAY ['effect/' || a.effect_id, 'event/' || a.event_id, CASE WHEN e.reason = 'pruned' THEN 'prune' END]
            || ARRAY (SELECT 'conflict/' || c.id FROM conflict c WHERE c.event_id = a.event_id)
            || ARRAY (SELECT 'stream/' || s.id FROM stream s WHERE s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash)) AS o (object)
    CROSS JOIN LATERAL (
        SELECT x.id, x.action, x.actor, x.at, x.reason
        FROM audit x
        WHERE x.object = o.object AND x.action = ANY ($5::text[])
            AND (x.action NOT IN ('stream.skip', 'stream.unblock') OR x.after ->> 'effect' = a.effect_id::text)
            AND CASE WHEN a.revision >= 0 AND x.after ? 'revision' THEN (x.after ->> 'revision')::int > a.revision
                ELSE x.at >= $6::timestamptz - interval '1 minute' END
        OFFSET 0) u
    ORDER BY u.id DESC
    LIMIT 1) d`

// doubtedColumns are the columns of items whose effects may have been decided about.
var doubtedColumns = row.ColumnsFrom(1,
	row.Bigint("position", func(i *stepItem) int64 { return i.position }),
	row.UUID("effect_id", func(i *stepItem) inbox.ID { return i.effect }),
	row.UUID("event_id", func(i *stepItem) inbox.ID { return i.event }),
	row.Int("revision", (*stepItem).plannedRevision),
)

// plannedRevision returns the effect's revision as the plan saw it, or -1 for an effect that did not exist.
func (i *stepItem) plannedRevision() int32 {
	if i.effect.IsZero() {
		return -1
	}
	return int32(i.revision)
}

// reserveAndReadDecisionsTx reserves jobs for n effects and, in the same round trip, looks up
// who decided about the items.
func (r *Store) reserveAndReadDecisionsTx(ctx context.Context, tx pgx.Tx, replay *Replay, n int, items []*stepItem) ([]int64, error) {
	var jobIDs []int64
	var b pgx.Batch
	if n > 0 {
		r.store.Enqueuer().ReserveTx(&b, n, &jobIDs)
	}
	queueReadDecisions(&b, replay, items)
	if b.Len() == 0 {
		return nil, nil
	}
	return jobIDs, tx.SendBatch(ctx, &b).Close()
}

// queueReadDecisions queues the statement that finds decisions about the items. An item
// without a decision keeps its outcome.
func queueReadDecisions(b *pgx.Batch, replay *Replay, items []*stepItem) {
	if len(items) == 0 {
		return
	}
	at := make(map[int64]*stepItem, len(items))
	for _, it := range items {
		at[it.position] = it
	}
	told := decisionTexts()
	args := append(doubtedColumns.AppendEach(nil, items), slices.Collect(maps.Keys(told)), replay.CreatedAt)
	b.Queue(readDecisions, args...).Query(func(rows pgx.Rows) error {
		var (
			position      int64
			action        inbox.AuditAction
			actor, reason string
			when          time.Time
		)
		_, err := pgx.ForEachRow(rows, []any{&position, &action, &actor, &when, &reason}, func() error {
			it := at[position]
			it.outcome = ItemDecidedSince
			it.detail = fmt.Sprintf("%s by %s at %s: %s", told[action], actor, when.UTC().Format(time.RFC3339), reason)
			return nil
		})
		return err
	})
}

// stateToCreate is the planned state of an effect that a run creates. Stored: never change.
const stateToCreate = "unmade"

// isUnchanged reports whether a locked effect is as the plan saw it: nothing has changed its
// state, and there was no decision about it.
func (i *planItem) isUnchanged(h *inbox.LockedEffect) bool {
	return h.Version == i.version && h.State == i.state && h.Reason == i.reason && h.Revision == i.revision
}
