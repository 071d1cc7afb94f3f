package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// place is where an effect belongs in its sequence, as it is admitted.
type sequencePlace struct {
	key      string      // for people
	label    place.Label // the same, as it is stored
	hash     []byte      // nil without a key
	number   string      // empty without one
	filtered bool
	state    inbox.EffectState
	reason   inbox.Reason
}

// labelLength bounds how much of a sequence key is kept for people, in bytes.
const labelLength = 128

// placeOf finds an event's place in an ordered route's sequence. It is nil for an
// event that the route does not take, unless it leaves a number behind that others
// would wait for.
func placeOf(a *inbox.Admission, event int, route *inbox.Route, matches bool) *sequencePlace {
	filtered := !matches
	if filtered && route.Order.Mode != sequence.Contiguous {
		return nil
	}
	key, number := a.Events[event].SequenceKey, a.Events[event].SequenceNumber
	if route.Sequence != nil {
		key, number = route.Sequence(a, event)
	}
	policy := route.Order.WithDefaults()
	p := &sequencePlace{state: inbox.EffectPending, filtered: filtered}
	if key == "" {
		if filtered {
			return nil
		}
		p.stands(policy.NoKey, inbox.ReasonNoKey)
		return p
	}
	p.key, p.hash = pgtext.Clean(key, labelLength), route.Series.KeyHash(a.Source.FirstName(), route.FirstName(), key)
	if policy.Mode == sequence.Arrival {
		// In the order of receipt, and inside one delivery in the order of its events.
		p.number = sequence.NumberOf(a.ReceivedAt.Add(time.Duration(event))).String()
		return p
	}
	n, err := sequence.ParseNumber(number)
	if err == nil && (policy.Mode != sequence.Contiguous || n.Whole()) {
		p.number = n.String()
		return p
	}
	if filtered {
		return nil
	}
	p.stands(policy.NoNumber, inbox.ReasonNoNumber)
	return p
}

// stands is what becomes of an effect whose place is not known.
func (p *sequencePlace) stands(choice sequence.Choice, reason inbox.Reason) {
	p.reason = reason
	switch choice {
	case sequence.Hold:
		p.state = inbox.EffectHeld
	case sequence.Dead:
		p.state = inbox.EffectDead
	case sequence.Apply:
	}
}

// pending reports whether the effect is to be woken.
func (e *effectRow) pending() bool { return e.place == nil || e.place.state == inbox.EffectPending }

// countPlaces counts what was admitted without a place.
func (g *Gate) countPlaces(d *delivery) {
	for i := range d.entries {
		if d.receipt.Items[i].Outcome != inbox.Recorded {
			continue
		}
		for j := range d.entries[i].effects {
			e := &d.entries[i].effects[j]
			switch {
			case e.place == nil:
			case e.place.reason == inbox.ReasonNoKey:
				g.order.Of(e.route.ID).MissingKeys.Add(1)
			case e.place.reason == inbox.ReasonNoNumber:
				g.order.Of(e.route.ID).MissingNumbers.Add(1)
			}
		}
	}
}

// The keys of a group, sorted, so that two groups that make the same ones do not
// wait for each other crosswise. One that is there is not waited for, whoever has
// locked it.
const insertStreams = `
INSERT INTO stream (route_id, key_hash, key_label, definition_id, key_label_sealed, key_label_key_id)
SELECT k.route_id, k.hash, k.label, nullif(k.definition, 0), k.sealed, k.key_id
FROM unnest($1::int[], $2::bytea[], $3::text[], $4::bigint[], $5::bytea[], $6::int[]) AS k (route_id, hash, label, definition, sealed, key_id)
ON CONFLICT ON CONSTRAINT stream_key DO NOTHING`

// Apart from the unordered ones, which have nothing of this to pay for.
const insertOrdered = `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at, sequence_key_hash, sequence_number,
    filtered, reason)
SELECT k.id, k.event_id, k.route_id, k.route_version, k.key, nullif(k.job_id, 0), k.state, CASE WHEN k.state = 'pending' THEN now() END,
    k.hash, nullif(k.number, '')::numeric, k.filtered, nullif(k.reason, '')
FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::text[], $8::bytea[], $9::text[], $10::boolean[], $11::text[])
    AS k (id, event_id, route_id, route_version, key, job_id, state, hash, number, filtered, reason)`

type orderedColumns struct {
	effectColumns
	states, numbers, reasons []string
	hashes                   [][]byte
	filtered                 []bool
	streams                  []newStream
}

type newStream struct {
	routeID int32
	hash    []byte
	label   place.Label
	series  int64
}

func (c *orderedColumns) add(event inbox.ID, e *effectRow, job int64) {
	c.effectColumns.add(event, e, job)
	p := e.place
	c.states, c.numbers, c.reasons = append(c.states, string(p.state)), append(c.numbers, p.number), append(c.reasons, string(p.reason))
	c.hashes, c.filtered = append(c.hashes, p.hash), append(c.filtered, p.filtered)
	if p.hash != nil {
		c.streams = append(c.streams, newStream{e.route.ID, p.hash, p.label, e.route.Series.ID})
	}
}

func (c *orderedColumns) queue(b *pgx.Batch) {
	if len(c.ids) == 0 {
		return
	}
	slices.SortFunc(c.streams, func(x, y newStream) int {
		if d := x.routeID - y.routeID; d != 0 {
			return int(d)
		}
		return strings.Compare(string(x.hash), string(y.hash))
	})
	var routes []int32
	var hashes [][]byte
	var labels []*string
	var series []int64
	var sealed [][]byte
	var keyIDs []*int32
	for i, s := range c.streams {
		if i == 0 || s.routeID != routes[len(routes)-1] || string(s.hash) != string(hashes[len(hashes)-1]) {
			routes, hashes, series = append(routes, s.routeID), append(hashes, s.hash), append(series, s.series)
			labels, sealed, keyIDs = append(labels, s.label.Plain), append(sealed, s.label.Sealed), append(keyIDs, s.label.KeyID)
		}
	}
	if len(routes) > 0 {
		b.Queue(insertStreams, routes, hashes, labels, series, sealed, keyIDs)
	}
	b.Queue(insertOrdered, c.ids, c.eventIDs, c.routeIDs, c.routeVersions, c.keys, c.jobIDs, c.states, c.hashes, c.numbers, c.filtered, c.reasons)
}
