package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// eventColumns are the columns of the events that a group inserts.
var eventColumns = row.ColumnsFrom(1,
	row.UUID("id", func(l *keyEntry) inbox.ID { return l.id }),
	row.Int("source_id", func(l *keyEntry) int32 { return l.source().ID }),
	row.Text("event_id", func(l *keyEntry) string { return l.eventID }),
	row.Text("type", (*keyEntry).storedType),
	row.Bytes("body_sha256", func(l *keyEntry) []byte { return l.stored }),
	row.Bytes("canonical_sha256", func(l *keyEntry) []byte { return l.storedCanonical }),
	row.Time("occurred_at", func(l *keyEntry) *time.Time { return row.Micros(l.event().OccurredAt) }),
	row.Time("received_at", func(l *keyEntry) *time.Time { return row.Micros(l.delivery.admission.ReceivedAt) }),
	row.Text("admission", func(l *keyEntry) string { return l.admission }),
	row.OptionalText("admission_detail", func(l *keyEntry) *string { return row.Optional(l.detail) }),
	row.Text("class", func(l *keyEntry) string { return l.source().Class }),
	row.UUID("body_id", func(l *keyEntry) inbox.ID { return l.delivery.bodyID }),
	row.Int("item", func(l *keyEntry) int32 { return int32(l.item) }),
	row.Int("body_offset", func(l *keyEntry) int32 { return int32(l.event().Offset) }),
	row.Int("body_length", func(l *keyEntry) int32 { return int32(l.event().Length) }),
	row.Int("deliveries", func(l *keyEntry) int32 { return int32(1 + len(l.followers)) }),
	row.OptionalText("traceparent", func(l *keyEntry) *string { return row.Optional(l.delivery.admission.Traceparent) }),
	row.Bool("id_unsigned", (*keyEntry).isIDUnsigned),
	row.OptionalText("tenant", func(l *keyEntry) *string {
		return row.Optional(cmp.Or(l.delivery.admission.Tenant, l.source().Tenant))
	}),
	row.UUID("parent", func(l *keyEntry) inbox.ID {
		if follows := l.event().Follows; follows != nil {
			return follows.Parent
		}
		return inbox.ID{}
	}),
	row.Bool("shadow", func(l *keyEntry) bool { return l.source().Shadow }),
)

// transmissionColumns are the columns of a group in which at least one event has a transmission.
var transmissionColumns = eventColumns.With(transmissionColumn)

var transmissionColumn = row.OptionalText("transmission", func(l *keyEntry) *string { return row.Optional(l.event().Transmission) })

// storedType is the event's type if it can be stored. The type of an unusable event is the sender's unchecked
// text.
func (l *keyEntry) storedType() string {
	eventType := l.event().Type
	if l.admission == inbox.AdmissionUnusable && !pgtext.Storable(eventType) {
		return ""
	}
	return eventType
}

// keyColumns are the keys by which the events of a group are read back.
var keyColumns = row.ColumnsFrom(1,
	row.Int("source_id", func(l *keyEntry) int32 { return l.source().ID }),
	row.Text("event_id", func(l *keyEntry) string { return l.eventID }),
	row.UUID("own", func(l *keyEntry) inbox.ID { return l.id }),
	row.Bool("rearm", func(l *keyEntry) bool { return l.source().Rearm >= 0 && !l.source().Strict }),
)

// transmissionKeys are the second keys of the events of a group.
var transmissionKeys = row.ColumnsFrom(1,
	row.Int("source_id", func(l *keyEntry) int32 { return l.source().ID }),
	transmissionColumn,
)

// bodyColumns are the columns of the bodies that a group inserts.
var bodyColumns = row.ColumnsFrom(1,
	row.Text("class", func(b *newBody) string { return b.admission.Source.Class }),
	row.UUID("id", func(b *newBody) inbox.ID { return b.bodyID }),
	row.Bytes("headers", func(b *newBody) []byte { return b.headers }),
	row.Bytes("body", func(b *newBody) []byte { return b.body }),
	row.Int("key_id", func(b *newBody) *int32 { return b.keyID }),
)

// bodyRows are the columns of the bodies, and the event without which a body is not written.
var bodyRows = bodyColumns.With(row.UUID("event_id", func(b *newBody) inbox.ID { return b.event }))

// newBody is the body of a delivery with a new event.
type newBody struct {
	*delivery
	event inbox.ID
}

// addBody adds the body of the event's delivery once, regardless of how many of its events are new. A group is at most
// a few hundred deliveries, but one delivery may carry thousands of events, so the last added body is compared
// first.
func addBody(bodies []newBody, l *keyEntry) []newBody {
	for _, known := range slices.Backward(bodies) {
		if known.bodyID == l.delivery.bodyID {
			return bodies
		}
	}
	return append(bodies, newBody{l.delivery, l.id})
}

// newEffect is an effect of a new event.
type newEffect struct {
	*effectRow
	event  inbox.ID
	shadow bool

	position int // of the event in the group, in order of arrival
}

// effectColumns are the columns of the effects of unordered routes.
var effectColumns = row.ColumnsFrom(1, columnsOfEffect("idempotency_key")...)

// columnsOfEffect are the columns that each effect has; key is the name of its idempotency key.
func columnsOfEffect(key string) []row.Column[newEffect] {
	return []row.Column[newEffect]{
		row.UUID("id", func(e *newEffect) inbox.ID { return e.id }),
		row.UUID("event_id", func(e *newEffect) inbox.ID { return e.event }),
		row.Int("route_id", func(e *newEffect) int32 { return e.route.ID }),
		row.Int("route_version", func(e *newEffect) int32 { return e.route.Version }),
		row.Text(key, func(e *newEffect) string { return e.key }),
		row.Bool("shadow", func(e *newEffect) bool { return e.shadow }),
	}
}

// bumps are the events that were delivered again, and how often.
type bumps struct {
	ids    []inbox.ID
	counts []int32
}

func (c *bumps) add(id inbox.ID, n int) {
	c.ids = append(c.ids, id)
	c.counts = append(c.counts, int32(n))
}
