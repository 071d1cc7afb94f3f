package gate

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// storedLabel is a label of an event as it is stored.
type storedLabel struct {
	name  string
	value []byte
}

// label makes the labels of the delivery's events, in the caller's goroutine. An event that cannot be used has none.
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
			if len(e.labels) < inbox.MaxLabels && l.Storable() { // one that cannot be stored would fail its whole group
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

var labelColumns = row.ColumnsFrom(2,
	row.UUID("event_id", func(l *newLabel) inbox.ID { return l.event }),
	row.Text("name", func(l *newLabel) string { return l.name }),
	row.Bytes("value", func(l *newLabel) []byte { return l.value }),
)

// In the transaction of the event, so that an event is found by its labels from its first moment on.
var insertLabels = `
INSERT INTO event_label (` + labelColumns.Names() + `, secret_id)
SELECT k.*, $1::uuid FROM unnest(` + labelColumns.Arrays() + `) AS k (` + labelColumns.Names() + `)`
