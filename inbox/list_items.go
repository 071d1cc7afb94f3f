package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ListSummary says how the list stands that an effect became.
type ListSummary struct {
	// Total is how many items the list has; 0 if this process cannot open the list.
	Total int `json:"total,omitempty"`
	// Written is how many of them are effects by now.
	Written int `json:"written"`
	// States counts the written ones by state.
	States map[EffectState]int `json:"states"`
}

// The items of one list by state, through the unique index of events, routes and items.
const countItemStates = `
SELECT x.state, count(*)
FROM effect x
WHERE x.event_id = $1 AND x.route_id = (SELECT h.route_id FROM effect h WHERE h.id = $2) AND x.item > 0
GROUP BY x.state`

const readListTotal = `SELECT h.state, h.rendered, h.rendered_key_id, h.result, h.result_key_id FROM effect h WHERE h.id = $1`

// list sums up the list that an effect became; nil if it became none.
func (l *Lister) list(ctx context.Context, d *EffectDetail) (*ListSummary, error) {
	if d.Item > 0 {
		return nil, nil //nolint:nilnil // as it says above
	}
	var state EffectState
	var rendered, result []byte
	var renderedKey, resultKey *int32
	if err := l.pool.QueryRow(ctx, readListTotal, d.ID).Scan(&state, &rendered, &renderedKey, &result, &resultKey); err != nil {
		return nil, fmt.Errorf("reading the list of effect %s: %w", d.ID, err)
	}
	rows, err := l.pool.Query(ctx, countItemStates, d.Event, d.ID)
	if err != nil {
		return nil, fmt.Errorf("counting the items of effect %s: %w", d.ID, err)
	}
	out := &ListSummary{States: map[EffectState]int{}}
	var counted EffectState
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&counted, &n}, func() error {
		out.States[counted] = n
		out.Written += n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("counting the items of effect %s: %w", d.ID, err)
	}
	// What cannot be opened here is only not counted.
	if opened, err := l.keys.Open(place.Result(d.ID), resultKey, result); err == nil && state == EffectDone {
		var written struct{ Items int }
		if json.Unmarshal(opened, &written) == nil {
			out.Total = written.Items
		}
	}
	if opened, err := l.keys.Open(place.Rendered(d.ID), renderedKey, rendered); err == nil && out.Total == 0 && len(opened) > 0 && opened[0] == '[' {
		var texts []json.RawMessage
		if json.Unmarshal(opened, &texts) == nil {
			out.Total = len(texts)
		}
	}
	if out.Written == 0 && (out.Total == 0 || state == EffectDone) {
		return nil, nil //nolint:nilnil // as it says above
	}
	return out, nil
}

// The items of one list are found through the unique index of events, routes and items, and
// not through that of all effects: a page of a list reads that list and nothing else.
const listItems = `
SELECT x.id, x.event_id, s.name, e.event_id, e.type, r.name, r.target, x.state, coalesce(x.reason, ''),
       x.attempts, coalesce(x.last_code, ''), x.next_at, x.item, coalesce(e.tenant, s.tenant)
FROM effect x
JOIN route r ON r.id = x.route_id
JOIN inbox_event e ON e.id = x.event_id
JOIN source s ON s.id = e.source_id
WHERE x.event_id = $1 AND x.route_id = $2 AND x.item > coalesce((SELECT b.item FROM effect b WHERE b.id = $4), 0)
  AND ($3::text = '' OR x.state = $3)
ORDER BY x.item
LIMIT $5`

// ErrNoList is returned for an effect that became no list.
var ErrNoList = errors.New("the effect became no list")

const readListPlace = `
SELECT h.event_id, h.route_id, h.item, EXISTS (SELECT FROM effect i WHERE i.event_id = h.event_id AND i.route_id = h.route_id AND i.item > 0)
FROM effect h
WHERE h.id = $1`

// Items gives one page of the items of the list that an effect became, in the order of
// the list. Of the filter it uses State, Before and Limit: Before is the last item of the
// page before this one. It returns [ErrNotFound], and [ErrNoList] for an effect that
// became no list.
func (l *Lister) Items(ctx context.Context, list ID, f EffectFilter) ([]EffectRow, error) {
	var event ID
	var route int32
	var item int
	var items bool
	err := l.pool.QueryRow(ctx, readListPlace, list).Scan(&event, &route, &item, &items)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fmt.Errorf("list %s: %w", list, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("reading list %s: %w", list, err)
	case item > 0 || !items:
		return nil, fmt.Errorf("list %s: %w", list, ErrNoList)
	}
	rows, err := l.pool.Query(ctx, listItems, event, route, f.State, f.Before, row.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("listing the items of %s: %w", list, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[EffectRow])
	if err != nil {
		return nil, fmt.Errorf("listing the items of %s: %w", list, err)
	}
	return out, nil
}
