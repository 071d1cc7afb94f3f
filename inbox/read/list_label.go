package read

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// These parts make a statement that finds the events with a label. It reads one range of the index for each form in which the
// value may be stored, and all batches that are not indexed yet. It is one statement, so that it sees a label that is moved at the same
// time in exactly one place. The condition on the id of the batches lets the planner use their index. Without an index, every plan would
// include the cost of a disabled scan, so that the planner could not tell plans apart.
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
	// OFFSET 0 keeps the planner from walking all events, which would already be in the right order.
	eachOfLabel = `) x CROSS JOIN LATERAL (SELECT e.* FROM inbox_event e WHERE e.id = x.id OFFSET 0) v) v`
)

// labelsBetween narrows labels x to events with ids from first on and below before. A zero id does not narrow them. It compares whole keys of
// the index of values. With ids alone, the planner would expect no rows for events newer than its statistics, and read the labels of all of them.
func labelsBetween(name string, first, before inbox.ID) (p row.Predicates) {
	p.AddIf(!first.IsZero(), `(x.name, x.value, x.event_id) >= (?, k.value, ?)`, name, first)
	p.AddIf(!before.IsZero(), `(x.name, x.value, x.event_id) < (?, k.value, ?)`, name, before)
	return p
}

// storedLabels returns all forms in which the value of a label may be stored: the plain text, from the time before there was a keyring, and
// the HMAC with each secret. It returns an error if the newest secret cannot be opened, because this process would not find new
// events. It skips an older secret that cannot be opened: its key is lost, and so are the labels hashed with it.
func storedLabels(ctx context.Context, db row.Querier, keys *seal.Keyring, l inbox.Label) ([][]byte, error) {
	secrets, err := inbox.InstallationSecrets(ctx, db, keys, nil)
	if err != nil {
		return nil, err
	}
	out := [][]byte{l.Stored(nil)}
	for i, secret := range secrets {
		switch {
		case secret.Err == nil:
			out = append(out, l.Stored(secret.Value))
		case i == 0:
			return nil, fmt.Errorf("labels are hashed under a secret that cannot be opened here: %w", secret.Err)
		}
	}
	return out, nil
}

// LabelSearch finds the events with a label, indexed or not. Make one with [FindLabel].
type LabelSearch struct {
	name   string
	stored [][]byte // all forms in which the value may be stored

	// Hashed says that this installation keeps only the HMACs of the values of labels.
	Hashed bool
}

// FindLabel prepares a search by a label. keys opens the secrets with which labels are hashed. It is nil if there are none.
func FindLabel(ctx context.Context, db row.Querier, keys *seal.Keyring, l inbox.Label) (LabelSearch, error) {
	stored, err := storedLabels(ctx, db, keys, l)
	return LabelSearch{name: l.Name, stored: stored, Hashed: keys.Ring() != nil}, err
}

// Events adds a table of the ids of the events with the label to a statement. Its only column is id. It has the ids from first on
// and below before; a zero id does not narrow them. Without a limit it has all of them, in no order. With a limit it has at least
// that many of the smallest ids, and perhaps others.
func (l *LabelSearch) Events(s *row.Statement, first, before inbox.ID, limit int) {
	s.Add(`(SELECT DISTINCT v.id FROM (`).Add(indexedEvents, l.stored, l.name).And(labelsBetween(l.name, first, before))
	if limit > 0 {
		s.Add(firstIndexed, limit)
	} else {
		s.Add(eachIndexed)
	}
	s.Add(waitingEvents, l.stored, l.name, l.stored).Where(eventsBetween(first, before)).Add(`) v)`)
}

// eventReader reads events among those that from adds to a statement.
type eventReader func(ctx context.Context, from func(*row.Statement), p row.Predicates, limit int) ([]EventRow, error)

// walkLabel restricts the walk to the events with the label.
func (l *Lister) walkLabel(ctx context.Context, w *listWalk[EventRow, inbox.ID], label inbox.Label, since inbox.ID, narrow row.Predicates, read eventReader) error {
	stored, err := storedLabels(ctx, l.pool, l.keys, label)
	if err != nil {
		return err
	}
	w.edge = func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error) {
		var s row.Statement
		s.Add(`SELECT v.id FROM (`).Add(indexedEvents, stored, label.Name).And(labelsBetween(label.Name, since, from)).Add(edgeOfIndexed, rows)
		s.Add(waitingEvents, stored, label.Name, stored).Where(eventsBetween(since, from)).Add(edgeOfLabel, rows)
		return l.edge(ctx, &s)
	}
	w.read = func(ctx context.Context, from, to inbox.ID, limit int) ([]EventRow, error) {
		return read(ctx, func(s *row.Statement) {
			first := later(since, to)
			s.Add(`(SELECT v.* FROM (`).Add(indexedEvents, stored, label.Name).And(labelsBetween(label.Name, first, from)).Add(eachIndexed)
			s.Add(waitingEvents, stored, label.Name, stored).Where(eventsBetween(first, from)).Add(eachOfLabel)
		}, narrow, limit)
	}
	return nil
}
