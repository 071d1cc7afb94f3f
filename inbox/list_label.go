package inbox

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// The events with a label, from the newest on: one range of an index for each way in which its value may be stored.
const (
	edgeOfLabelled = `
SELECT v.id
FROM unnest(?::bytea[]) AS k (value)
CROSS JOIN LATERAL (
    SELECT v.id FROM (SELECT x.event_id AS id FROM event_label x WHERE x.name = ? AND x.value = k.value) v`

	edgeOfEachLabel = ` ORDER BY v.id DESC LIMIT ?) v ORDER BY v.id DESC OFFSET ? - 1 LIMIT 1`

	eventsByLabel = `(SELECT v.* FROM (
        SELECT v.id
        FROM unnest(?::bytea[]) AS k (value)
        CROSS JOIN LATERAL (
            SELECT v.id FROM (SELECT x.event_id AS id FROM event_label x WHERE x.name = ? AND x.value = k.value) v`

	eachByLabel = ` ORDER BY v.id DESC OFFSET 0) v) x JOIN inbox_event v ON v.id = x.id) v`
)

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
		s.Add(edgeOfLabelled, stored, label.Name).Where(eventsBetween(since, from)).Add(edgeOfEachLabel, rows, rows)
		return l.edge(ctx, &s)
	}
	w.read = func(ctx context.Context, from, to ID, limit int) ([]EventRow, error) {
		return read(ctx, func(s *row.Statement) {
			s.Add(eventsByLabel, stored, label.Name).Where(eventsBetween(later(since, to), from)).Add(eachByLabel)
		}, narrow, limit)
	}
	return nil
}
