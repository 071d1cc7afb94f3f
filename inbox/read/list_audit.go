package read

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

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
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int `json:"-"`
}

// AuditRow is one entry: who did what to what, and why. Before and After are
// JSON, or null.
type AuditRow struct {
	ID     inbox.ID        `json:"id"`
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
	w := listWalk[AuditRow, inbox.ID]{cursor: newListCursor[inbox.ID]("audit", f), limit: f.Limit, place: func(r *AuditRow) inbox.ID { return r.ID }}
	if w.from, err = w.cursor.begin(f.Cursor, idSince(f.Until)); err != nil {
		return page, fmt.Errorf("listing the audit: %w", err)
	}
	since := idSince(f.Since)
	var narrow row.Predicates
	narrow.AddIf(f.Object != "", `a.object = ?`, f.Object)
	ofName := strings.HasPrefix(f.Actor, "token:") && !strings.Contains(f.Actor, "/") // every token that had the name
	narrow.AddIf(f.Actor != "" && !ofName, `a.actor = ?`, f.Actor)
	narrow.AddIf(ofName, `(a.actor = ? OR starts_with(a.actor, ?))`, f.Actor, f.Actor+"/")
	narrow.AddIf(f.Action != "", `a.action = ?`, f.Action)
	if l.tenant != "" {
		narrow = append(narrow, func(s *row.Statement) { s.Add(auditTenant).Add(`?`, l.tenant) })
	}
	between := func(first, before inbox.ID) (p row.Predicates) {
		p.AddIf(!first.IsZero(), `a.id >= ?`, first)
		p.AddIf(!before.IsZero(), `a.id < ?`, before)
		return p
	}
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]AuditRow, error) {
		var s row.Statement
		s.Add(selectAudit).Where(append(between(later(since, to), from), narrow...)).Add(` ORDER BY a.id DESC LIMIT ?`, limit)
		return collect(ctx, l, &s, pgx.RowToStructByPos[AuditRow])
	}
	if len(narrow) > 0 && f.Object == "" { // object has its own index
		w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
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
