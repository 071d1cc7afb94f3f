package read

import (
	"context"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// EventLabel is a stored value by which an event can be found.
type EventLabel struct {
	Name string `json:"name"`

	// Value is empty if the label is hashed, erased, or if the access lacks read-payload, because it is part of the payload.
	Value string `json:"value,omitempty" shows:"label"`

	// Hashed says that only the HMAC of the value is stored.
	Hashed bool `json:"hashed,omitempty"`

	// PayloadHidden says that the value was left out because the access lacks read-payload.
	PayloadHidden bool `json:"payload_hidden,omitempty"`
}

// String returns name=value, or the name and why the value is missing.
func (l *EventLabel) String() string {
	switch {
	case l.Hashed:
		return l.Name + " (only its hash is kept)"
	case l.PayloadHidden:
		return l.Name + " (needs the scope read-payload)"
	case l.Value == "":
		return l.Name + " (the value was erased)"
	}
	return l.Name + "=" + l.Value
}

// StreamPlace is the place of an event in the stream of one of its ordered routes, between its neighbours.
type StreamPlace struct {
	// Stream is our id of the stream, Route its route, and Number the event's place in the stream.
	Stream int64  `json:"stream"`
	Route  string `json:"route"`
	Number string `json:"number"`

	// Before and After are the nearest events with lower and higher numbers; nil where none is recorded.
	Before *Neighbour `json:"before,omitempty"`
	After  *Neighbour `json:"after,omitempty"`

	// MissingBefore and MissingAfter are how many numbers between the event and its neighbour have no recorded event. They
	// are empty if no number is missing, and for streams whose numbers need not be contiguous.
	MissingBefore string `json:"missing_before,omitempty"`
	MissingAfter  string `json:"missing_after,omitempty"`
}

// Neighbour is the event next to another one in a stream.
type Neighbour struct {
	Number  string   `json:"number"`
	State   string   `json:"state"`
	Event   inbox.ID `json:"event"`
	EventID string   `json:"event_id"`
	Type    string   `json:"type"`
}

// The statement reads two index entries of each stream, one on each side. An event of another tenant counts as a neighbour,
// so that the numbers up to it are counted as missing and its own is not. The answer does not contain such an event.
const readPlaces = `
SELECT st.id, r.name, trim_scale(x.sequence_number)::text,
    coalesce(trim_scale(b.number)::text, ''), coalesce(b.state, ''), b.event, coalesce(b.event_id, ''), coalesce(b.type, ''), coalesce(b.seen, false),
    coalesce(trim_scale(a.number)::text, ''), coalesce(a.state, ''), a.event, coalesce(a.event_id, ''), coalesce(a.type, ''), coalesce(a.seen, false),
    CASE WHEN d.policy ->> 'Mode' = 'contiguous' AND x.sequence_number - b.number > 1 THEN trim_scale(x.sequence_number - b.number - 1)::text ELSE '' END,
    CASE WHEN d.policy ->> 'Mode' = 'contiguous' AND a.number - x.sequence_number > 1 THEN trim_scale(a.number - x.sequence_number - 1)::text ELSE '' END
FROM effect x
JOIN route r ON r.id = x.route_id
JOIN stream st ON st.route_id = x.route_id AND st.key_hash = x.sequence_key_hash
LEFT JOIN order_definition d ON d.route_id = st.route_id AND CASE WHEN st.definition_id IS NULL THEN NOT d.salted ELSE d.id = st.definition_id END
LEFT JOIN LATERAL (
    SELECT e.sequence_number AS number, e.state, v.id AS event, v.event_id, v.type, $2 = '' OR coalesce(v.tenant, s.tenant) = $2 AS seen
    FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id
    WHERE e.route_id = x.route_id AND e.sequence_key_hash = x.sequence_key_hash AND e.sequence_number < x.sequence_number
    ORDER BY e.sequence_number DESC, e.id DESC LIMIT 1) b ON true
LEFT JOIN LATERAL (
    SELECT e.sequence_number AS number, e.state, v.id AS event, v.event_id, v.type, $2 = '' OR coalesce(v.tenant, s.tenant) = $2 AS seen
    FROM effect e JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id
    WHERE e.route_id = x.route_id AND e.sequence_key_hash = x.sequence_key_hash AND e.sequence_number > x.sequence_number
    ORDER BY e.sequence_number, e.id LIMIT 1) a ON true
WHERE x.event_id = $1 AND x.item = 0 AND x.sequence_key_hash IS NOT NULL AND x.sequence_number IS NOT NULL
ORDER BY r.name`

// places returns the places of an event in streams.
func (l *Lister) places(ctx context.Context, event inbox.ID) ([]StreamPlace, error) {
	rows, err := l.pool.Query(ctx, readPlaces, event, l.tenant)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s StreamPlace, err error) {
		var sides [2]struct {
			Neighbour
			event *inbox.ID
			seen  bool
		}
		b, a := &sides[0], &sides[1]
		if err := row.Scan(&s.Stream, &s.Route, &s.Number, &b.Number, &b.State, &b.event, &b.EventID, &b.Type, &b.seen,
			&a.Number, &a.State, &a.event, &a.EventID, &a.Type, &a.seen, &s.MissingBefore, &s.MissingAfter); err != nil {
			return s, err
		}
		for i, side := range []**Neighbour{&s.Before, &s.After} {
			if found := &sides[i]; found.seen {
				found.Event = *found.event
				*side = &found.Neighbour
			}
		}
		return s, nil
	})
}

// The statement reads the labels in the index, and the few that are not indexed yet.
const readEventLabels = `
SELECT name, value, secret_id IS NOT NULL FROM event_label WHERE event_id = $1
UNION ALL
SELECT k.name, k.value, b.secret_id IS NOT NULL
FROM event_label_batch b CROSS JOIN LATERAL unnest(b.event_id, b.name, b.value) AS k (id, name, value)
WHERE b.id > '00000000-0000-0000-0000-000000000000' AND $1 = ANY (b.event_id) AND k.id = $1
ORDER BY 1`

// labelsOf returns the labels of an event.
func (l *Lister) labelsOf(ctx context.Context, event inbox.ID) ([]EventLabel, error) {
	rows, err := l.pool.Query(ctx, readEventLabels, event)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (label EventLabel, err error) {
		var value []byte
		err = row.Scan(&label.Name, &value, &label.Hashed)
		if !label.Hashed && utf8.Valid(value) {
			label.Value = string(value)
		}
		return label, err
	})
}
