package read

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ListSummary is the progress of the list that an effect became.
type ListSummary struct {
	// Total is how many items the list has; 0 if this process cannot open the list.
	Total int `json:"total,omitempty"`
	// Written is how many of them are written as effects.
	Written int `json:"written"`
	// States counts the written ones by state.
	States map[inbox.EffectState]int `json:"states"`
	// CancelledAt is when an operator cancelled the list, nil if none did. What had not ended then is skipped.
	CancelledAt *time.Time `json:"cancelled_at,omitempty"`
}

// The unique index of events, routes and items finds the items of one list.
const countItemStates = `
SELECT x.state, count(*)
FROM effect x
WHERE x.event_id = $1 AND x.route_id = (SELECT h.route_id FROM effect h WHERE h.id = $2) AND x.item > 0
GROUP BY x.state`

const readListTotal = `SELECT h.state, h.rendered, h.rendered_key_id, h.result, h.result_key_id, h.list_cancelled_at FROM effect h WHERE h.id = $1`

// list returns the summary of the list that an effect became, or nil if the effect became none.
func (l *Lister) list(ctx context.Context, d *EffectDetail) (*ListSummary, error) {
	if d.Item > 0 {
		return nil, nil //nolint:nilnil // as it says above
	}
	var state inbox.EffectState
	var rendered, result []byte
	var renderedKey, resultKey *int32
	out := &ListSummary{States: map[inbox.EffectState]int{}}
	if err := l.pool.QueryRow(ctx, readListTotal, d.ID).Scan(&state, &rendered, &renderedKey, &result, &resultKey, &out.CancelledAt); err != nil {
		return nil, fmt.Errorf("reading the list of effect %s: %w", d.ID, err)
	}
	rows, err := l.pool.Query(ctx, countItemStates, d.Event, d.ID)
	if err != nil {
		return nil, fmt.Errorf("counting the items of effect %s: %w", d.ID, err)
	}
	var counted inbox.EffectState
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&counted, &n}, func() error {
		out.States[counted] = n
		out.Written += n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("counting the items of effect %s: %w", d.ID, err)
	}
	// A value that cannot be opened here does not count towards Total.
	if opened, err := l.keys.Open(place.Result(d.ID), resultKey, result); err == nil && state == inbox.EffectDone {
		var written struct{ Items int }
		if json.Unmarshal(opened, &written) == nil {
			out.Total = written.Items
		}
	}
	if opened, err := l.keys.Open(place.Rendered(d.ID), renderedKey, rendered); err == nil && out.Total == 0 && len(opened) > 0 && opened[0] == '[' {
		var texts []json.RawMessage
		if json.Unmarshal(opened, &texts) == nil {
			for i, text := range texts { // a repetition in the sender's list is stored as the first item
				if i == 0 || !bytes.Equal(text, texts[0]) {
					out.Total++
				}
			}
		}
	}
	if out.Written == 0 && (out.Total == 0 || state == inbox.EffectDone) {
		return nil, nil //nolint:nilnil // as it says above
	}
	return out, nil
}

// ErrNoList is returned for an effect that became no list.
var ErrNoList = errors.New("the effect became no list")

const readListPlace = `
SELECT h.event_id, h.route_id, h.item, EXISTS (SELECT FROM effect i WHERE i.event_id = h.event_id AND i.route_id = h.route_id AND i.item > 0)
FROM effect h
WHERE h.id = $1`

// Items returns one page of the items of the list that an effect became, in the order of
// the list. It uses State, Cursor and Limit of the filter. It returns [inbox.ErrNotFound],
// [ErrNoList] for an effect that became no list, and [ErrCursor] for a cursor of another list.
func (l *Lister) Items(ctx context.Context, list inbox.ID, f EffectFilter) (page Page[EffectRow], err error) {
	var event inbox.ID
	var route int32
	var item int
	var items bool
	if err = l.allow(ctx, KindEffect, list); err == nil {
		err = l.pool.QueryRow(ctx, readListPlace, list).Scan(&event, &route, &item, &items)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.Is(err, inbox.ErrNotFound):
		return page, fmt.Errorf("list %s: %w", list, inbox.ErrNotFound)
	case err != nil:
		return page, fmt.Errorf("reading list %s: %w", list, err)
	case item > 0 || !items:
		return page, fmt.Errorf("list %s: %w", list, ErrNoList)
	}
	if page, err = l.items(ctx, list, event, route, f); err != nil {
		return page, fmt.Errorf("listing the items of %s: %w", list, err)
	}
	return page, nil
}

// items finds the items through the unique index of events, routes and items, and not through that of all effects, so
// that a page of a list reads only that list.
func (l *Lister) items(ctx context.Context, list, event inbox.ID, route int32, f EffectFilter) (page Page[EffectRow], err error) {
	w := listWalk[EffectRow, int64]{
		cursor: newListCursor[int64]("items", struct {
			List  inbox.ID
			State string
		}{list, f.State}),
		limit: f.Limit, place: func(r *EffectRow) int64 { return int64(r.Item) },
	}
	if w.from, err = w.cursor.begin(f.Cursor); err != nil {
		return page, err
	}
	between := func(from, to int64) (p row.Predicates) {
		p.Add(`e.event_id = ? AND e.route_id = ? AND e.item > ?`, event, route, from)
		p.AddIf(to > 0, `e.item <= ?`, to)
		return p
	}
	w.read = func(ctx context.Context, from, to int64, limit int) ([]EffectRow, error) {
		p := between(from, to)
		p.AddIf(f.State != "", `e.state || '' = ?`, f.State)
		var s row.Statement
		s.Add(selectEffects).Add(`effect e`).Where(p).Add(joinItems, limit)
		return collect(ctx, l, &s, scanEffectRow)
	}
	if f.State != "" {
		w.edge = func(ctx context.Context, from int64, rows int) (int64, time.Time, error) {
			var s row.Statement
			s.Add(`SELECT e.item, v.received_at FROM effect e JOIN inbox_event v ON v.id = e.event_id`).Where(between(from, 0)).
				Add(` ORDER BY e.item OFFSET ? - 1 LIMIT 1`, rows)
			return l.numberEdge(ctx, &s)
		}
	}
	return w.page(ctx, l.search())
}
