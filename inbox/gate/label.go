package gate

import (
	"slices"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// storedLabel is the database form of an event's label.
type storedLabel struct {
	name  string
	value []byte
}

// label makes the labels of the delivery's events, in the caller's goroutine. An unusable event has none.
func (d *delivery) label(secret []byte) {
	labels := d.admission.Source.Labels
	if labels == nil {
		return
	}
	for i := range d.entries {
		e := &d.entries[i]
		if e.admission == inbox.AdmissionUnusable {
			continue
		}
		for _, l := range labels(d.admission, e.item) {
			// A label that cannot be stored would fail its whole group.
			if len(e.labels) < inbox.MaxLabels && l.Storable() && !slices.ContainsFunc(e.labels, func(s storedLabel) bool { return s.name == l.Name }) {
				e.labels = append(e.labels, storedLabel{l.Name, l.Stored(secret)})
			}
		}
	}
}

// newLabel is a label of a new event.
type newLabel struct {
	storedLabel
	event inbox.ID
}

var labelColumns = row.ColumnsFrom(3,
	row.UUID("event_id", func(l *newLabel) inbox.ID { return l.event }),
	row.Text("name", func(l *newLabel) string { return l.name }),
	row.Bytes("value", func(l *newLabel) []byte { return l.value }),
)

// All labels of a group are one row, in the transaction of the events, so that an event can be found by its labels from
// the beginning. Package labels moves them into their index later.
var insertLabels = `
INSERT INTO event_label_batch (secret_id, id, ` + labelColumns.Names() + `)
SELECT $1::uuid, $2::uuid, array_agg(k.event_id), array_agg(k.name), array_agg(k.value)
FROM unnest(` + labelColumns.Arrays() + `) AS k (` + labelColumns.Names() + `)
WHERE ` + recorded + `
HAVING count(*) > 0`
