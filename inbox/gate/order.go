package gate

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// sequencePlace is the place of an effect in its sequence at admission.
type sequencePlace struct {
	key      string      // for people
	label    place.Label // the stored form of key
	hash     []byte      // nil without a key
	number   string      // empty without one
	arrival  bool        // the database assigns the number
	filtered bool
	state    inbox.EffectState
	reason   reasons.Reason
}

// labelLength bounds how much of a sequence key is kept for people, in bytes.
const labelLength = 128

// placeOf finds an event's place in an ordered route's sequence. It is nil for an event
// that the route does not take, unless the event has a number for which others would
// wait.
func placeOf(a *inbox.Admission, event int, route *inbox.Route, matches bool) *sequencePlace {
	filtered := !matches
	if filtered && route.Order.Mode != sequence.Contiguous {
		return nil
	}
	key, number, timed := a.Events[event].SequenceKey, a.Events[event].SequenceNumber, a.Source.SequenceTimes
	if route.Sequence != nil {
		key, number, timed = route.Sequence(a, event)
	}
	policy := route.Order.WithDefaults()
	p := &sequencePlace{state: inbox.EffectPending, filtered: filtered}
	if key == "" {
		if filtered {
			return nil
		}
		p.applyChoice(policy.NoKey, reasons.NoKey)
		return p
	}
	p.key, p.hash = pgtext.Clean(key, labelLength), route.Series.KeyHash(a.Source.FirstName(), route.FirstName(), key)
	if policy.Mode == sequence.Arrival {
		p.arrival = true
		return p
	}
	n, err := sequence.ParseNumber(number)
	if err == nil && timed && !filtered && n.AheadOf(a.ReceivedAt) {
		// Until that time it would be newer than everything else. Under any policy it
		// gets no place, so that it does not block later events.
		p.applyChoice(sequence.Hold, reasons.Ahead)
		return p
	}
	if err == nil && (policy.Mode != sequence.Contiguous || n.Whole()) {
		p.number = n.String()
		return p
	}
	if filtered {
		return nil
	}
	p.applyChoice(policy.NoNumber, reasons.NoNumber)
	return p
}

// applyChoice sets the state of an effect whose place is unknown.
func (p *sequencePlace) applyChoice(choice sequence.Choice, reason reasons.Reason) {
	p.reason = reason
	switch choice {
	case sequence.Hold:
		p.state = inbox.EffectHeld
	case sequence.Dead:
		p.state = inbox.EffectDead
	case sequence.Apply:
	}
}

// pending reports whether the effect needs a wake-up.
func (e *effectRow) pending() bool { return e.place == nil || e.place.state == inbox.EffectPending }

// countPlaces counts the effects that were admitted without a place.
func (g *Gate) countPlaces(d *delivery) {
	for i := range d.entries {
		if d.receipt.Items[i].Outcome != inbox.Recorded {
			continue
		}
		for j := range d.entries[i].effects {
			e := &d.entries[i].effects[j]
			switch {
			case e.place == nil:
			case e.place.reason == reasons.NoKey:
				g.order.Of(e.route.ID).MissingKeys.Add(1)
			case e.place.reason == reasons.NoNumber:
				g.order.Of(e.route.ID).MissingNumbers.Add(1)
			}
		}
	}
}

// The keys of a group, once each and sorted, so that two groups that insert the same ones do not
// deadlock. The statement does not wait for an existing row, even if another transaction
// has locked it.
var insertStreams = `
INSERT INTO stream (route_id, key_hash, key_label, definition_id, key_label_sealed, key_label_key_id)
SELECT DISTINCT ON (k.route_id, k.hash) k.route_id, k.hash, k.label, nullif(k.definition, 0), k.sealed, k.key_id
FROM unnest(` + streamColumns.Arrays() + `) AS k (` + streamColumns.Names() + `)
WHERE ` + recorded + `
ORDER BY k.route_id, k.hash
ON CONFLICT ON CONSTRAINT stream_key DO NOTHING`

// insertOrderedOf is the statement that inserts the effects of ordered routes, apart from the unordered ones, so that
// those do not pay for these columns. jobID is the expression that takes the id of a new job.
//
// In mode arrival the statement takes the number, from one sequence for all processes.
// No process's clock affects it. The answer comes after the commit, so a delivery that a
// sender makes after an answer has a higher number, whichever process takes it. Inside
// one delivery the numbers follow its events, because the rows come in that order.
func insertOrderedOf(jobID string) statement {
	return newStatement(orderedColumns, func(rows string) string {
		return `
INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at, sequence_key_hash, sequence_number,
    filtered, reason, shadow)
SELECT k.id, k.event_id, k.route_id, k.route_version, k.key, CASE WHEN k.state = 'pending' THEN ` + jobID + ` END, k.state, CASE WHEN k.state = 'pending' THEN now() END,
    k.hash, CASE WHEN k.arrival THEN nextval('effect_arrival') ELSE nullif(k.number, '')::numeric END, k.filtered, nullif(k.reason, ''), k.shadow
FROM ` + rows + `
WHERE ` + recorded
	})
}

var orderedColumns = row.ColumnsFrom(1, append(columnsOfEffect("key"),
	row.Text("state", func(e *newEffect) inbox.EffectState { return e.place.state }),
	row.Bytes("hash", func(e *newEffect) []byte { return e.place.hash }),
	row.Text("number", func(e *newEffect) string { return e.place.number }),
	row.Bool("arrival", func(e *newEffect) bool { return e.place.arrival }),
	row.Bool("filtered", func(e *newEffect) bool { return e.place.filtered }),
	row.Text("reason", func(e *newEffect) reasons.Reason { return e.place.reason }),
)...)

// newStream is the stream of an effect; most exist already.
type newStream struct {
	event   inbox.ID
	routeID int32
	hash    []byte
	label   place.Label
	series  int64
}

var streamColumns = row.ColumnsFrom(1,
	row.UUID("event_id", func(s *newStream) inbox.ID { return s.event }),
	row.Int("route_id", func(s *newStream) int32 { return s.routeID }),
	row.Bytes("hash", func(s *newStream) []byte { return s.hash }),
	row.OptionalText("label", func(s *newStream) *string { return s.label.Plain }),
	row.Bigint("definition", func(s *newStream) int64 { return s.series }),
	row.Bytes("sealed", func(s *newStream) []byte { return s.label.Sealed }),
	row.Int("key_id", func(s *newStream) *int32 { return s.label.KeyID }),
)

// queueOrdered queues the effects of ordered routes, and their streams before them.
func (g *Gate) queueOrdered(b *pgx.Batch, effects []newEffect) {
	if len(effects) == 0 {
		return
	}
	streams := make([]newStream, 0, len(effects))
	for i := range effects {
		if e := &effects[i]; e.place.hash != nil {
			streams = append(streams, newStream{e.event, e.route.ID, e.place.hash, e.place.label, e.route.Series.ID})
		}
	}
	if len(streams) > 0 {
		b.Queue(insertStreams, streamColumns.Args(streams)...)
	}
	slices.SortStableFunc(effects, func(x, y newEffect) int { return x.position - y.position })
	b.Queue(g.insertOrdered.of(len(effects)), orderedColumns.Args(effects)...)
}
