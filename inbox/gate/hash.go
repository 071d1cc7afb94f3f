package gate

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// formerSHA is the hash under which the event's body may be stored from before there was a keyring. Only the search for replays
// uses it, so only an event whose id is not signed has one.
func (l *keyEntry) formerSHA() []byte {
	if !l.isIDUnsigned() {
		return nil
	}
	return l.delivery.secret.FormerHash(l.sha[:])
}

// isIDUnsigned reports whether the sender did not sign the id under which the event is recorded.
func (l *keyEntry) isIDUnsigned() bool {
	return l.delivery.admission.IDUnsigned && l.admission != inbox.AdmissionUnusable
}

// formerColumns are what a gate with a secret looks for in addition: rows that were stored before there was a keyring.
var formerColumns = []row.Column[keyEntry]{
	row.Bytes("former_sha256", (*keyEntry).formerSHA),
	row.OptionalText("former_id", func(l *keyEntry) *string { return row.Optional(l.formerID) }),
}

// An unusable event has its hash in its id, so it has another id since there is a keyring. The event that has its former id is the
// same one, and may be about to get the new id by a reseal. This is a statement after the insertion, as readEvents is: of the two
// forms, its snapshot sees the one that kept the event from being inserted.
const readFormerEvents = `
SELECT k.ord, e.id, e.body_sha256, e.admission, false
FROM unnest($1::int[], $2::text[]) WITH ORDINALITY AS k (source_id, event_id, ord)
JOIN inbox_event e ON e.source_id = k.source_id AND e.event_id = k.event_id`

// formerKeys are the former keys of the events of a group.
var formerKeys = row.ColumnsFrom(1,
	row.Int("source_id", func(l *keyEntry) int32 { return l.source().ID }),
	formerColumns[1],
)
