package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// planItem is one item of a plan.
type planItem struct {
	position int64
	effect   inbox.ID // zero for an effect that the run creates
	asked    inbox.ID // the duplicate in the scope, if effect is its owner
	event    inbox.ID
	route    int32
	version  int
	state    inbox.EffectState // as the plan saw the effect
	reason   reasons.Reason
	revision int
	action   Action
	leftOut  LeftOut
	verdict  Verdict
	diff     []byte
}

// digest adds to the digest what a run does with the item.
func (i *planItem) digest(h hash.Hash) {
	fmt.Fprintf(h, "%d %x %x %x %d %d %s %s %s %s %s %d\n",
		i.position, i.effect, i.asked, i.event, i.route, i.version, i.action, i.leftOut, i.verdict, i.state, i.reason, i.revision)
}

// An item is written once. Its outcome is another row.
var insertPlanItems = `
INSERT INTO replay_item (replay_id, position, effect_id, asked_id, event_id, route_id, effect_version, action, left_out, verdict, diff,
    diff_key_id, effect_state, effect_reason, effect_revision)
SELECT $1, a.position, a.effect_id, a.asked_id, a.event_id, nullif(a.route_id, 0), nullif(a.version, 0), a.action, nullif(a.left_out, ''),
    nullif(a.verdict, ''), a.diff, a.diff_key_id, a.state, nullif(a.reason, ''), a.revision
FROM unnest(` + planItemColumns.Arrays() + `) AS a (` + planItemColumns.Names() + `)`

// planItemRow is the database row of an item. Its diff is sealed.
type planItemRow struct {
	*planItem
	sealedDiff []byte
	diffKey    *int32
}

// planItemColumns are the parameters after the replay's id.
var planItemColumns = row.ColumnsFrom(2,
	row.Bigint("position", func(i *planItemRow) int64 { return i.position }),
	row.UUID("effect_id", func(i *planItemRow) inbox.ID { return i.effect }),
	row.UUID("asked_id", func(i *planItemRow) inbox.ID { return i.asked }),
	row.UUID("event_id", func(i *planItemRow) inbox.ID { return i.event }),
	row.Int("route_id", func(i *planItemRow) int32 { return i.route }),
	row.Int("version", func(i *planItemRow) int32 { return int32(i.version) }),
	row.Text("action", func(i *planItemRow) Action { return i.action }),
	row.Text("left_out", func(i *planItemRow) LeftOut { return i.leftOut }),
	row.Text("verdict", func(i *planItemRow) Verdict { return i.verdict }),
	row.Bytes("diff", func(i *planItemRow) []byte { return i.sealedDiff }),
	row.Int("diff_key_id", func(i *planItemRow) *int32 { return i.diffKey }),
	row.Text("state", func(i *planItemRow) inbox.EffectState { return i.state }),
	row.Text("reason", func(i *planItemRow) reasons.Reason { return i.reason }),
	row.Int("revision", func(i *planItemRow) int32 { return int32(i.revision) }),
)

func queueItems(b *pgx.Batch, keys *seal.Keyring, replay inbox.ID, items []planItem) {
	rows, ring := make([]planItemRow, len(items)), keys.Ring()
	for i := range items {
		it := &items[i]
		rows[i].planItem = it
		if it.diff != nil {
			rows[i].sealedDiff, rows[i].diffKey = ring.Seal(place.Diff(replay, it.position), it.diff)
		}
	}
	b.Queue(insertPlanItems, planItemColumns.Append([]any{replay}, rows)...)
}

// ItemFilter narrows the items of a replay; a zero field does not.
type ItemFilter struct {
	Action  Action
	LeftOut LeftOut
	Verdict Verdict
	Outcome ItemOutcome
	// Open takes the items that a run has not acted on yet.
	Open bool
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// Item is one item of a replay.
type Item struct {
	// Position counts from 1, in the order in which a run takes the items.
	Position int64 `json:"position"`
	// Effect is nil for an effect that a run has yet to create.
	Effect *inbox.ID `json:"effect,omitempty"`
	// Asked is the duplicate in the plan's scope, if Effect is its owner.
	Asked   *inbox.ID `json:"asked,omitempty"`
	Event   inbox.ID  `json:"event"`
	Source  string    `json:"source"`
	EventID string    `json:"event_id"`
	Type    string    `json:"type"`
	Route   string    `json:"route"`
	Target  string    `json:"target"`
	Version int       `json:"version,omitempty"`
	// PlannedState and PlannedReason are the state and the reason that the effect had when the
	// plan was made. They are empty for an effect that a run creates.
	PlannedState  string      `json:"planned_state,omitempty"`
	PlannedReason string      `json:"planned_reason,omitempty"`
	Action        Action      `json:"action"`
	LeftOut       LeftOut     `json:"left_out,omitempty"`
	Verdict       Verdict     `json:"verdict,omitempty"`
	Outcome       ItemOutcome `json:"outcome,omitempty"`
	Detail        string      `json:"detail,omitempty"`
	ActedAt       *time.Time  `json:"acted_at,omitempty"`
	// State is the present state of the effect; empty if it was removed or is not created yet.
	State string `json:"state,omitempty"`
	// Diff is a [Diff] as JSON, or null.
	Diff json.RawMessage `json:"diff,omitempty" shows:"content"`
}

// An item that the plan leaves out has its outcome from the start, and no run reads it.
const itemOutcome = `coalesce(o.outcome, CASE WHEN i.left_out IS NOT NULL THEN 'left_out' END)`

const selectItems = `
SELECT i.position, coalesce(o.made_id, i.effect_id), i.asked_id, i.event_id, coalesce(s.name, ''), coalesce(v.event_id, ''), coalesce(v.type, ''), coalesce(r.name, ''),
    coalesce(r.target, ''), coalesce(i.effect_version, 0), i.action, coalesce(i.left_out, ''), coalesce(i.verdict, ''),
    coalesce(` + itemOutcome + `, ''), coalesce(o.detail, ''), o.acted_at, coalesce(e.state, ''), i.diff, i.diff_key_id,
    CASE WHEN i.effect_id IS NOT NULL THEN i.effect_state END, CASE WHEN i.effect_id IS NOT NULL THEN i.effect_reason END
FROM replay_item i
LEFT JOIN replay_outcome o ON o.replay_id = i.replay_id AND o.position = i.position
LEFT JOIN inbox_event v ON v.id = i.event_id
LEFT JOIN source s ON s.id = v.source_id
LEFT JOIN route r ON r.id = i.route_id
LEFT JOIN effect e ON e.id = coalesce(o.made_id, i.effect_id)`

// Items returns one page of a replay's items with their diffs, in the order in which a run takes them. It returns
// [read.ErrCursor] for a cursor of another list or filter.
func (r *Store) Items(ctx context.Context, id inbox.ID, f ItemFilter) (read.Page[Item], error) {
	q := read.PageQuery[Item, int64]{
		List: "replay items", Filter: []any{id, f.Action, f.LeftOut, f.Verdict, f.Outcome, f.Open}, Cursor: f.Cursor, Limit: f.Limit,
		Place: func(i *Item) int64 { return i.Position },
		Read: func(ctx context.Context, from, to int64, limit int) ([]Item, error) {
			return r.items(ctx, id, f, from, to, limit)
		},
		Budget: r.budget,
	}
	if f.Action != "" || f.LeftOut != "" || f.Verdict != "" || f.Outcome != "" || f.Open {
		// The time of an item is the time of its event.
		q.Edge = func(ctx context.Context, from int64, rows int) (at int64, searched time.Time, err error) {
			var event inbox.ID
			var s row.Statement
			s.Add(`SELECT position, event_id FROM replay_item WHERE replay_id = ? AND position > ? ORDER BY position OFFSET ? - 1 LIMIT 1`, id, from, rows)
			_, err = row.QueryOne(ctx, r.pool, &s, &at, &event)
			return at, event.Time(), err
		}
	}
	page, err := read.NextPage(ctx, q)
	if err != nil {
		return page, fmt.Errorf("listing the items of replay %s: %w", id, err)
	}
	return page, nil
}

func (r *Store) items(ctx context.Context, id inbox.ID, f ItemFilter, from, to int64, limit int) ([]Item, error) {
	var p row.Predicates
	p.Add(`i.replay_id = ? AND i.position > ?`, id, from)
	p.AddIf(to > 0, `i.position <= ?`, to)
	p.AddIf(f.Action != "", `i.action = ?`, string(f.Action))
	p.AddIf(f.LeftOut != "", `i.left_out = ?`, string(f.LeftOut))
	p.AddIf(f.Verdict != "", `i.verdict = ?`, string(f.Verdict))
	p.AddIf(f.Outcome != "", itemOutcome+` = ?`, string(f.Outcome))
	p.AddIf(f.Open, itemOutcome+` IS NULL`)
	var s row.Statement
	s.Add(selectItems).Where(p).Add(` ORDER BY i.position LIMIT ?`, limit)
	return row.Collect(ctx, r.pool, &s, func(row pgx.CollectableRow) (i Item, err error) {
		var diff []byte
		var keyID *int32
		var plannedState, plannedReason *string
		err = row.Scan(&i.Position, &i.Effect, &i.Asked, &i.Event, &i.Source, &i.EventID, &i.Type, &i.Route, &i.Target, &i.Version,
			&i.Action, &i.LeftOut, &i.Verdict, &i.Outcome, &i.Detail, &i.ActedAt, &i.State, &diff, &keyID, &plannedState, &plannedReason)
		if plannedState != nil {
			i.PlannedState = *plannedState
		}
		if plannedReason != nil {
			i.PlannedReason = *plannedReason
		}
		if err != nil || diff == nil {
			return i, err
		}
		if i.Diff, err = r.store.Keyring().Open(place.Diff(id, i.Position), keyID, diff); err != nil {
			i.Diff, i.Detail = nil, strings.TrimSpace(i.Detail+" (diff: "+err.Error()+")")
		}
		return i, nil
	})
}
