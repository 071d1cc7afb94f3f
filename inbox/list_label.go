package inbox

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// The events with a label, from the newest on: one range of an index for each way in which its value may be stored, and
// what waits for that index, all of which is looked through. It is one statement, so that a label that is moved meanwhile is seen
// in one place or the other. A condition on the id of each batch gives the planner an index for them: this session has no other way to
// read them, and whatever has no way makes all plans of its statement cost the same.
const (
	indexedEvents = `
    SELECT v.id
    FROM unnest(?::bytea[]) AS k (value)
    CROSS JOIN LATERAL (
        SELECT x.event_id AS id FROM event_label x WHERE x.name = ? AND x.value = k.value`

	waitingEvents = `
    UNION ALL
    SELECT v.id
    FROM (
        SELECT k.id
        FROM event_label_batch b
        CROSS JOIN LATERAL unnest(b.event_id, b.name, b.value) AS k (id, name, value)
        WHERE b.id > '00000000-0000-0000-0000-000000000000' AND b.value && ?::bytea[] AND k.name = ? AND k.value = ANY (?::bytea[])) v`

	firstIndexed  = ` ORDER BY x.event_id LIMIT ?) v`
	edgeOfIndexed = ` ORDER BY x.event_id DESC LIMIT ?) v`
	edgeOfLabel   = `) v ORDER BY v.id DESC OFFSET ? - 1 LIMIT 1`

	eachIndexed = ` ORDER BY x.event_id DESC OFFSET 0) v`
	// OFFSET 0 keeps the planner from walking all events for those of the label, which would be in the right order.
	eachOfLabel = `) x CROSS JOIN LATERAL (SELECT e.* FROM inbox_event e WHERE e.id = x.id OFFSET 0) v) v`
)

// labelsBetween narrows labels x to those of events from an id on and before another one; a zero id does not. It compares whole keys of the index
// of values. From ids alone, the planner takes a range of newer events than it has counted for empty, and reads the labels of them all.
func labelsBetween(name string, first, before ID) (p row.Predicates) {
	p.AddIf(!first.IsZero(), `(x.name, x.value, x.event_id) >= (?, k.value, ?)`, name, first)
	p.AddIf(!before.IsZero(), `(x.name, x.value, x.event_id) < (?, k.value, ?)`, name, before)
	return p
}

// LabelSearch finds the events with a label, wherever the label is kept. [FindLabel] makes one.
type LabelSearch struct {
	name   string
	stored [][]byte // all under which the value may be stored

	// Hashed says that this installation keeps only the HMACs of the values of labels.
	Hashed bool
}

// FindLabel prepares a search by a label. keys opens the secrets under which labels are hashed; nil where there are none.
func FindLabel(ctx context.Context, db row.Querier, keys *seal.Keyring, l Label) (LabelSearch, error) {
	stored, err := storedLabels(ctx, db, keys, l)
	return LabelSearch{name: l.Name, stored: stored, Hashed: keys.Ring() != nil}, err
}

// Events puts the ids of the events with the label into a statement, as a table of one column, id: those from first on and before
// another one, where a zero id does not narrow. Without a limit they are all of them, in no order; with one they are those with the
// smallest ids, so many at least, and others.
func (l *LabelSearch) Events(s *row.Statement, first, before ID, limit int) {
	s.Add(`(SELECT DISTINCT v.id FROM (`).Add(indexedEvents, l.stored, l.name).And(labelsBetween(l.name, first, before))
	if limit > 0 {
		s.Add(firstIndexed, limit)
	} else {
		s.Add(eachIndexed)
	}
	s.Add(waitingEvents, l.stored, l.name, l.stored).Where(eventsBetween(first, before)).Add(`) v)`)
}

// eventReader gives the events among those that from puts into a statement.
type eventReader func(ctx context.Context, from func(*row.Statement), p row.Predicates, limit int) ([]EventRow, error)

// walkLabel makes the walk one over the events with the label.
func (l *Lister) walkLabel(ctx context.Context, w *listWalk[EventRow, ID], label Label, since ID, narrow row.Predicates, read eventReader) error {
	stored, err := storedLabels(ctx, l.pool, l.keys, label)
	if err != nil {
		return err
	}
	w.edge = func(ctx context.Context, from ID, rows int) (ID, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT v.id FROM (`).Add(indexedEvents, stored, label.Name).And(labelsBetween(label.Name, since, from)).Add(edgeOfIndexed, rows)
		s.Add(waitingEvents, stored, label.Name, stored).Where(eventsBetween(since, from)).Add(edgeOfLabel, rows)
		return l.edge(ctx, &s)
	}
	w.read = func(ctx context.Context, from, to ID, limit int) ([]EventRow, error) {
		return read(ctx, func(s *row.Statement) {
			first := later(since, to)
			s.Add(`(SELECT v.* FROM (`).Add(indexedEvents, stored, label.Name).And(labelsBetween(label.Name, first, from)).Add(eachIndexed)
			s.Add(waitingEvents, stored, label.Name, stored).Where(eventsBetween(first, from)).Add(eachOfLabel)
		}, narrow, limit)
	}
	return nil
}
