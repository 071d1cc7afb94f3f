package replay

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
)

// The events of a run or a label are found stretch by stretch in the order of their ids, so that each statement ends soon even if
// many events belong to other runs, sources and tenants. An index finds the events with a label. No index has runs, so that the
// statement checks each event. The third part of an event id is the first part of the key, because credentials and operations
// contain no colon, and recipes escape colons in values.
const (
	stretchOfEvents = `
WITH stretch AS MATERIALIZED (
    SELECT v.id, v.source_id, v.event_id, v.tenant FROM inbox_event v WHERE v.id > ? ORDER BY v.id LIMIT ?)`

	beginLabelled = `
WITH stretch AS MATERIALIZED (
    SELECT v.id, v.source_id, v.event_id, v.tenant
    FROM (SELECT k.id FROM `
	endLabelled = ` k WHERE k.id > ? ORDER BY k.id LIMIT ?) k
    CROSS JOIN LATERAL (SELECT v.* FROM inbox_event v WHERE v.id = k.id OFFSET 0) v)`

	ofStretch = `
SELECT (SELECT count(*) FROM stretch), (SELECT k.id FROM stretch k ORDER BY k.id DESC LIMIT 1),
    coalesce((SELECT array_agg(v.id ORDER BY v.id) FROM stretch v JOIN source s ON s.id = v.source_id`

	runStretch   = 20000
	labelStretch = 2000 // smaller, because PostgreSQL looks up each event
)

// foundSteps are the events of a page. next is the last event that was read if there may be more of them. late says that the time
// ran out.
type foundSteps struct {
	events []inbox.ID
	next   *inbox.ID
	late   bool
}

// findSteps finds the events of the page.
func (a *Auditor) findSteps(ctx context.Context, ask *AuditRequest, deadline time.Time) (found foundSteps, err error) {
	after := ask.After
	if !ask.Since.IsZero() {
		if since := inbox.FirstID(ask.Since); bytes.Compare(after[:], since[:]) < 0 {
			after = since
		}
	}
	var label *read.LabelSearch
	stretch := runStretch
	if ask.Label != (inbox.Label{}) {
		search, err := read.FindLabel(ctx, a.cfg.Pool, a.cfg.Keyring, ask.Label)
		if err != nil {
			return found, err
		}
		label, stretch = &search, labelStretch
	}
	for {
		var looked int
		var last inbox.ID
		var events []inbox.ID
		err := a.read(ctx, func(tx pgx.Tx) error {
			sql, args := ask.stretch(label, after, stretch)
			return tx.QueryRow(ctx, sql, args...).Scan(&looked, &last, &events)
		})
		if err != nil {
			return found, err
		}
		found.events = append(found.events, events...)
		if len(found.events) > ask.Limit {
			found.events = found.events[:ask.Limit]
			found.next = &found.events[ask.Limit-1]
			return found, nil
		}
		if looked < stretch {
			return found, nil
		}
		if after = last; a.late(deadline) {
			found.next, found.late = &last, true
			return found, nil
		}
	}
}

// stretch returns the statement that reads the next n events after one, and finds the events of the request among them.
func (ask *AuditRequest) stretch(label *read.LabelSearch, after inbox.ID, n int) (sql string, args []any) {
	var s row.Statement
	if label == nil {
		s.Add(stretchOfEvents, [16]byte(after), n)
	} else {
		s.Add(beginLabelled)
		label.Events(&s, after, inbox.ID{}, n+1) // after is the first of them, or before it
		s.Add(endLabelled, [16]byte(after), n)
	}
	var p row.Predicates
	p.AddIf(ask.Source != "", `s.name = ?`, ask.Source)
	p.AddIf(ask.Run != "", `split_part(v.event_id, ':', 3) = ?`, ask.Run)
	p.AddIf(ask.Tenant != "", `coalesce(v.tenant, s.tenant) = ?`, ask.Tenant)
	return s.Add(ofStretch).Where(p).Add(`), '{}')`).SQL()
}
