package operation

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// ListOutcome is the outcome of the list that one effect became. Its size is bounded for
// lists of any length.
type ListOutcome struct {
	// Effect is the effect that became the list. `oncegate effects list --list` shows all
	// items by it.
	Effect inbox.ID `json:"effect"`

	// Items is how many items are written, and States how many of them are in each state.
	Items  int                       `json:"items"`
	States map[inbox.EffectState]int `json:"states"`

	// Failures are the first items that are dead or indeterminate; FailuresOmitted is how
	// many more there are.
	Failures        []ItemFailure `json:"failures,omitempty"`
	FailuresOmitted int           `json:"failures_omitted,omitempty"`
}

// ItemFailure is one item of a list that is dead or indeterminate.
type ItemFailure struct {
	Effect inbox.ID          `json:"effect"`
	Item   int               `json:"item"`
	State  inbox.EffectState `json:"state"`
	Reason reasons.Reason    `json:"reason,omitempty"`
	Code   string            `json:"code,omitempty"`
}

// MaxItemFailures bounds how many failures a [ListOutcome] lists.
const MaxItemFailures = 20

// Only asked for events that have a list, so that other operations pay nothing for it.
const countListStates = `
SELECT h.event_id, h.route_id, r.name, h.id, i.state, count(*)
FROM effect h
JOIN route r ON r.id = h.route_id
JOIN effect i ON i.event_id = h.event_id AND i.route_id = h.route_id AND i.item > 0
WHERE h.event_id = ANY ($1::uuid[]) AND h.item = 0
GROUP BY h.event_id, h.route_id, r.name, h.id, i.state`

const readItemFailures = `
SELECT i.id, i.item, i.state, coalesce(i.reason, ''), coalesce(i.last_code, '')
FROM effect i
WHERE i.event_id = $1 AND i.route_id = $2 AND i.item > 0 AND i.state IN ('dead', 'indeterminate')
ORDER BY i.item
LIMIT $3`

// addLists adds the lists to those outcomes of which a document may be made, or to all of
// them.
func addLists(ctx context.Context, db row.Querier, outcomes map[inbox.ID]*EventOutcome, all bool) error {
	var events []inbox.ID
	for id, o := range outcomes {
		if (all || o.AtRest && o.document == nil) && o.hasList() {
			events = append(events, id)
		}
	}
	if len(events) == 0 {
		return nil
	}
	rows, err := db.Query(ctx, countListStates, events)
	if err != nil {
		return err
	}
	type place struct {
		event inbox.ID
		route int32
	}
	lists := map[place]*ListOutcome{}
	var at place
	var name string
	var head inbox.ID
	var state inbox.EffectState
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&at.event, &at.route, &name, &head, &state, &n}, func() error {
		list := lists[at]
		if list == nil {
			list = &ListOutcome{Effect: head, States: map[inbox.EffectState]int{}}
			lists[at] = list
			outcomes[at.event].setList(name, list)
		}
		list.States[state] = n
		list.Items += n
		return nil
	}); err != nil {
		return err
	}
	for at, list := range lists {
		failed := list.States[inbox.EffectDead] + list.States[inbox.EffectIndeterminate]
		if failed == 0 {
			continue
		}
		rows, err := db.Query(ctx, readItemFailures, at.event, at.route, MaxItemFailures)
		if err != nil {
			return err
		}
		if list.Failures, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ItemFailure]); err != nil {
			return err
		}
		list.FailuresOmitted = failed - len(list.Failures)
	}
	return nil
}

func (o *EventOutcome) hasList() bool {
	for i := range o.Effects {
		if o.Effects[i].Item > 0 {
			return true
		}
	}
	return false
}

// setList sets the list in the effect that became it.
func (o *EventOutcome) setList(route string, list *ListOutcome) {
	for i := range o.Effects {
		if e := &o.Effects[i]; e.Route == route && e.Item == 0 {
			e.List = list
			return
		}
	}
}
