package decide

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
)

// DismissConflicts is a decision that conflicts need no event.
type DismissConflicts struct {
	// IDs names them; Filter finds them. One of them is required: All takes every conflict that waits.
	IDs    []inbox.ID
	Filter read.ConflictFilter
	All    bool

	// Seen limits the decision to the conflicts that a dry run showed the operator. If Seen is nil, Dismiss searches for them.
	Seen []Seen

	// Tenant limits the decision to the conflicts of a tenant's events. It is empty for all.
	Tenant string

	// Max bounds how many there may be; more are an error, and nothing is done. 0 is the default of 1,000, and 100,000 is the most.
	Max int

	// DryRun counts them and changes nothing.
	DryRun bool

	// Actor and Reason go into the audit. Both are required, but for a dry run.
	Actor, Reason string
}

// DismissedConflicts is the result of [DismissConflicts].
type DismissedConflicts struct {
	// Matched is how many conflicts were named or found.
	Matched int `json:"matched"`
	// Dismissed is how many were dismissed.
	Dismissed int `json:"dismissed"`
	// Changed is how many no longer waited when their turn came.
	Changed int `json:"changed"`
	// Seen are those that were named or found.
	Seen []Seen `json:"-"`
}

const findConflicts = `
SELECT c.id
FROM conflict c
JOIN inbox_event e ON e.id = c.event_id
JOIN source s ON s.id = c.source_id`

// Dismiss marks conflicts as dismissed, each with an entry in the audit. The payloads stay until they are pruned, and can still be
// admitted. A conflict that waits no more, or is another tenant's, is left alone and counts as changed. If a call is interrupted, make
// it again.
func (e *Decider) Dismiss(ctx context.Context, d DismissConflicts) (DismissedConflicts, error) {
	out, err := e.dismiss(ctx, d)
	if err != nil {
		return out, fmt.Errorf("dismissing conflicts: %w", err)
	}
	return out, nil
}

func (e *Decider) dismiss(ctx context.Context, d DismissConflicts) (out DismissedConflicts, err error) {
	if d.Seen == nil && len(d.IDs) == 0 && d.Filter == (read.ConflictFilter{}) && !d.All {
		return out, ErrScope
	}
	if !d.DryRun {
		if err := inbox.CheckExplanation(d.Actor, d.Reason); err != nil {
			return out, err
		}
	}
	if d.Max == 0 {
		d.Max = DefaultDiscards
	}
	d.Max = min(d.Max, MaxDiscards)
	if out.Seen = d.Seen; out.Seen == nil {
		if out.Seen, err = e.findConflicts(ctx, &d); err != nil {
			return out, err
		}
	}
	if out.Matched = len(out.Seen); out.Matched > d.Max {
		return out, fmt.Errorf("%w: at most %d", ErrBound, d.Max)
	}
	for left := out.Seen; len(left) > 0 && !d.DryRun; {
		chunk := left[:min(len(left), discardChunk)]
		left = left[len(chunk):]
		n := 0
		err := pgx.BeginFunc(ctx, e.store.Pool(), func(tx pgx.Tx) (err error) {
			n, err = dismissTx(ctx, tx, &d, seenIDs(chunk))
			return err
		})
		if err != nil {
			return out, err
		}
		out.Dismissed += n
		out.Changed += len(chunk) - n
	}
	return out, nil
}

// findConflicts returns up to d.Max + 1 conflicts that wait, the oldest first.
func (e *Decider) findConflicts(ctx context.Context, d *DismissConflicts) ([]Seen, error) {
	d.Filter.Waiting = true
	p := d.Filter.Predicates()
	p.AddIf(len(d.IDs) > 0, `c.id = ANY (?::uuid[])`, d.IDs)
	p.AddIf(d.Tenant != "", `coalesce(e.tenant, s.tenant) = ?`, d.Tenant)
	var find row.Statement
	find.Add(findConflicts).Where(p).Add(` ORDER BY c.id LIMIT ?`, d.Max+1)
	ids, err := row.Collect(ctx, e.store.Pool(), &find, pgx.RowTo[inbox.ID])
	for _, id := range d.IDs {
		if err == nil && !slices.Contains(ids, id) {
			return nil, fmt.Errorf("%w: no conflict that waits has the id %s", inbox.ErrNotFound, id)
		}
	}
	found := make([]Seen, len(ids))
	for i := range ids {
		found[i].ID = ids[i]
	}
	return found, err
}

// The statement locks the rows in the order of their ids, so that two decisions do not wait for each other.
const dismissConflicts = `
WITH waiting AS (
    SELECT c.id, e.event_id, s.name
    FROM conflict c
    JOIN inbox_event e ON e.id = c.event_id
    JOIN source s ON s.id = c.source_id
    WHERE c.id = ANY ($1::uuid[]) AND c.admitted_at IS NULL AND c.dismissed_at IS NULL AND ($3::text = '' OR coalesce(e.tenant, s.tenant) = $3)
    ORDER BY c.id
    FOR UPDATE OF c)
UPDATE conflict c SET dismissed_at = now(), dismissed_by = $2
FROM waiting w
WHERE c.id = w.id
RETURNING c.id, w.name, w.event_id, now()`

func dismissTx(ctx context.Context, tx pgx.Tx, d *DismissConflicts, ids []inbox.ID) (int, error) {
	rows, err := tx.Query(ctx, dismissConflicts, ids, d.Actor, d.Tenant)
	if err != nil {
		return 0, err
	}
	var (
		b               pgx.Batch
		id              inbox.ID
		source, eventID string
		now             time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &source, &eventID, &now}, func() error {
		a := inbox.AuditEntry{
			At: now, Actor: d.Actor, Action: inbox.AuditConflictDismiss, Object: "conflict/" + id.String(), Reason: d.Reason,
			Before: map[string]string{"source": source, "event_id": eventID}, After: map[string]any{"dismissed_at": now},
		}
		return a.Queue(&b)
	})
	if err != nil || b.Len() == 0 {
		return 0, err
	}
	return b.Len(), tx.SendBatch(ctx, &b).Close()
}
