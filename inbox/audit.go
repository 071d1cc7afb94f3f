package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// AuditAction says what was done. Stored: never change.
type AuditAction string

// The actions of an operator, or of a probe in his place. Stored: never change.
const (
	// AuditResolveDone: an indeterminate effect was found to have happened.
	AuditResolveDone AuditAction = "effect.resolve.done"
	// AuditResolveResend: an indeterminate effect is sent again.
	AuditResolveResend AuditAction = "effect.resolve.resend"
	// AuditDiscard: a dead effect will not happen.
	AuditDiscard AuditAction = "effect.discard"
	// AuditMove: an effect of a route that is gone waits for another one.
	AuditMove AuditAction = "effect.move"
	// AuditDiscardEvent: an event that nothing can be done for was seen.
	AuditDiscardEvent AuditAction = "event.discard"
	// AuditReplayPlan, AuditReplayRun and AuditReplayCancel are the steps of a replay.
	AuditReplayPlan   AuditAction = "replay.plan"
	AuditReplayRun    AuditAction = "replay.run"
	AuditReplayCancel AuditAction = "replay.cancel"
	// AuditGapAbandoned: the policy abandoned missing numbers of a stream.
	AuditGapAbandoned AuditAction = "stream.gap.abandoned"
	// AuditPrune: an operator named rows that prune otherwise keeps, and prune deleted them.
	AuditPrune AuditAction = "prune.include"
	// AuditErase: everything of an event but its tombstone was erased.
	AuditErase AuditAction = "event.erase"
	// AuditKeyRotate: a key was added to the keyring.
	AuditKeyRotate AuditAction = "keys.rotate"
	// AuditKeyActivate: another key became the active one.
	AuditKeyActivate AuditAction = "keys.activate"
	// AuditKeyRemove: a key was taken out of the keyring.
	AuditKeyRemove AuditAction = "keys.remove"
	// AuditStreamSkip: missing numbers were abandoned, or the effect that blocked a stream was skipped.
	AuditStreamSkip AuditAction = "stream.skip"
	// AuditOrderApply and AuditOrderSkip: an effect was held for a person, because its place in its sequence is unknown
	// or taken. It runs nevertheless, or never happens.
	AuditOrderApply AuditAction = "order.apply"
	AuditOrderSkip  AuditAction = "order.skip"
	// AuditSuppressionAdd, AuditSuppressionImport and AuditSuppressionRemove: addresses were
	// suppressed, one or a file of them, or may be written to again.
	AuditSuppressionAdd    AuditAction = "suppression.add"
	AuditSuppressionImport AuditAction = "suppression.import"
	AuditSuppressionRemove AuditAction = "suppression.remove"
	// AuditStreamUnblock: the effects after a blocking effect were released. The blocking effect keeps its state.
	AuditStreamUnblock AuditAction = "stream.unblock"
)

// AuditEntry is one entry to write.
type AuditEntry struct {
	At            time.Time
	Actor         string
	Action        AuditAction
	Object        string
	Reason        string
	Before, After any
}

const insertAudit = `
INSERT INTO audit (id, at, actor, action, object, reason, before, after) VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8)`

// WriteAuditTx writes an entry in the transaction that makes the change.
func WriteAuditTx(ctx context.Context, tx pgx.Tx, a AuditEntry) error {
	var b pgx.Batch
	if err := a.Queue(&b); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("auditing %s: %w", a.Action, err)
	}
	return nil
}

// Queue queues the statement that inserts the entry.
func (a *AuditEntry) Queue(b *pgx.Batch) error {
	before, err := json.Marshal(a.Before)
	if err != nil {
		return fmt.Errorf("auditing %s: %w", a.Action, err)
	}
	after, err := json.Marshal(a.After)
	if err != nil {
		return fmt.Errorf("auditing %s: %w", a.Action, err)
	}
	b.Queue(insertAudit, NewID(a.At), a.At, a.Actor, a.Action, a.Object, a.Reason, before, after)
	return nil
}

// Who did something and why, as they are stored.
const (
	maxActor  = 128
	maxReason = 1024
)

// ErrUnexplained is returned for something done without saying who did it or
// why, or saying it in what cannot be stored.
var ErrUnexplained = errors.New("an actor of at most 128 bytes and a reason of at most 1024 are required, in one line of text")

// CheckExplanation returns [ErrUnexplained] unless actor and reason can be stored as one line of text each.
func CheckExplanation(actor, reason string) error {
	for text, limit := range map[string]int{actor: maxActor, reason: maxReason} {
		if strings.TrimSpace(text) == "" || len(text) > limit || strings.ToValidUTF8(text, "") != text || strings.ContainsAny(text, "\x00\r\n") {
			return ErrUnexplained
		}
	}
	return nil
}

// AuditFilter narrows a list of audit entries; a zero field does not.
type AuditFilter struct {
	Actor  string `json:"actor,omitempty"`
	Action string `json:"action,omitempty"`
	// Object is exact, such as effect/<id> or event/<id>.
	Object string `json:"object,omitempty"`
	// Since and Until are the earliest time and the end of the times.
	Since time.Time `json:"-"`
	Until time.Time `json:"-"`
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string `json:"-"`
	// Before, for callers that have no cursor, is the last ID of the page before this one.
	Before ID `json:"-"`
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// AuditRow is one entry: who did what to what, and why. Before and After are
// JSON, or null.
type AuditRow struct {
	ID     ID              `json:"id"`
	At     time.Time       `json:"at"`
	Actor  string          `json:"actor"`
	Action string          `json:"action"`
	Object string          `json:"object"`
	Reason string          `json:"reason,omitempty"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

const selectAudit = `
SELECT a.id, a.at, a.actor, a.action, a.object, coalesce(a.reason, ''), coalesce(a.before, 'null'), coalesce(a.after, 'null')
FROM audit a`

// auditTenant selects the entries about an event, or an effect of an event, of a tenant. Entries about anything else,
// or about pruned rows, belong to no tenant.
const auditTenant = `CASE
    WHEN a.object ~ '^event/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (
        SELECT coalesce(v.tenant, s.tenant) FROM inbox_event v JOIN source s ON s.id = v.source_id WHERE v.id = substr(a.object, 7)::uuid)
    WHEN a.object ~ '^effect/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (
        SELECT coalesce(v.tenant, s.tenant) FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id
        WHERE e.id = substr(a.object, 8)::uuid)
    END = `

// Audit returns one page of the audit, newest first. It returns [ErrCursor] for a cursor of another list or filter.
func (l *Lister) Audit(ctx context.Context, f AuditFilter) (page Page[AuditRow], err error) {
	w := listWalk[AuditRow, ID]{cursor: newListCursor[ID]("audit", f), limit: f.Limit, place: func(r *AuditRow) ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor, f.Before, idSince(f.Until)); err != nil {
		return page, fmt.Errorf("listing the audit: %w", err)
	}
	since := idSince(f.Since)
	var narrow row.Predicates
	narrow.AddIf(f.Object != "", `a.object = ?`, f.Object)
	narrow.AddIf(f.Actor != "", `a.actor = ?`, f.Actor)
	narrow.AddIf(f.Action != "", `a.action = ?`, f.Action)
	if l.tenant != "" {
		narrow = append(narrow, func(s *row.Statement) { s.Add(auditTenant).Add(`?`, l.tenant) })
	}
	between := func(first, before ID) (p row.Predicates) {
		p.AddIf(!first.IsZero(), `a.id >= ?`, first)
		p.AddIf(!before.IsZero(), `a.id < ?`, before)
		return p
	}
	w.read = func(ctx context.Context, from, to ID, limit int) ([]AuditRow, error) {
		var s row.Statement
		s.Add(selectAudit).Where(append(between(later(since, to), from), narrow...)).Add(` ORDER BY a.id DESC LIMIT ?`, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[AuditRow])
	}
	if len(narrow) > 0 && f.Object == "" { // object has its own index
		w.edge = func(ctx context.Context, from ID, rows int) (ID, time.Time, error) {
			var s row.Statement
			s.Add(`SELECT a.id FROM audit a`).Where(between(since, from)).Add(` ORDER BY a.id DESC OFFSET ? - 1 LIMIT 1`, rows)
			return l.edge(ctx, &s)
		}
	}
	if page, err = w.page(ctx, l.search()); err != nil {
		return page, fmt.Errorf("listing the audit: %w", err)
	}
	return page, nil
}
