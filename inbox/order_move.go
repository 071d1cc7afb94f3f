package inbox

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// orderMove is one effect's next state.
type orderMove struct {
	id     ID
	state  EffectState // empty keeps it and changes only the job
	token  ID
	nextAt time.Time
	reason reasons.Reason
	jobID  int64
	newJob bool
}

// orderWrites is what a round of decisions writes.
type orderWrites struct {
	streams []orderStream
	moves   []orderMove
	below   []supersedeBelow
	gaps    []abandonedGap
}

type supersedeBelow struct {
	routeID int32
	hash    []byte
	number  sequence.Number
	count   *atomic.Uint64
}

type abandonedGap struct {
	stream    int64
	at, since time.Time
	gap       sequence.Gap
}

// move carries out the decision about one effect. It returns the effect's id if it is
// claimed.
func (o *order) move(s *orderStream, r *orderRow, d sequence.Decision, wakeAt time.Time, route EffectRoute, c *RouteCounters, w *orderWrites) ID {
	var ask *orderAsk
	for _, a := range s.asks {
		if a.effect == r.id && a.obtained && a.claimed.IsZero() {
			ask = a
			break
		}
	}
	waiting := r.state.Waiting() || r.state == EffectHeld
	if !waiting {
		return ID{}
	}
	late := d.Cause == sequence.CauseLate || d.Cause == sequence.CauseTie
	ends := func(state EffectState, reason reasons.Reason) {
		w.moves = append(w.moves, orderMove{id: r.id, state: state, reason: reason})
	}
	switch d.Action {
	case sequence.Keep:
	case sequence.Run:
		if ask == nil {
			ask = s.wakeUpFor(r, s.ordered(route).Mode)
		}
		switch {
		case ask != nil && (ask.effect.IsZero() || r.due || r.state == EffectHeld):
			ask.claimed, ask.late = r.id, late
			w.moves = append(w.moves, orderMove{id: r.id, state: EffectClaimed, token: ask.token, nextAt: s.now.Add(route.Lease), jobID: ask.jobID})
			if d.Cause == sequence.CauseLate {
				o.count(func() { c.late.Add(1) })
			}
			return r.id
		case r.state == EffectHeld:
			w.moves = append(w.moves, orderMove{id: r.id, state: EffectPending, newJob: true})
			if o.checking && route.Order.Ordered() {
				o.found++
				o.count(func() { c.heldRunnable.Add(1) })
			}
		}
	case sequence.Wait:
		reason := reasons.Reason("")
		switch {
		case d.Cause == sequence.CauseTie:
			reason = reasons.Tie
			o.count(func() { c.ties.Add(1) })
		case !wakeAt.IsZero():
			reason = reasons.Gap
		}
		if ask == nil && d.Cause != sequence.CauseTie && (r.state != EffectHeld || wakeAt.IsZero() || o.checking) {
			return ID{} // its own job will come, or it is held already
		}
		if r.state != EffectHeld {
			o.count(func() { c.held.Add(1) })
		}
		w.moves = append(w.moves, orderMove{id: r.id, state: EffectHeld, nextAt: wakeAt, reason: reason})
	case sequence.Pass:
		reason := reasons.Reason("")
		if d.Cause == sequence.CauseLate {
			reason = reasons.Late
			o.count(func() { c.late.Add(1) })
		}
		o.count(func() { c.superseded.Add(1) })
		ends(EffectSuperseded, reason)
	case sequence.Skip:
		o.count(func() { c.filtered.Add(1) })
		ends(EffectSkipped, reasons.Type)
	case sequence.Fail:
		switch d.Cause {
		case sequence.CauseTie:
			o.count(func() { c.ties.Add(1) })
			ends(EffectDead, reasons.Tie)
		case sequence.CauseLate:
			o.count(func() { c.late.Add(1) })
			ends(EffectDead, reasons.Late)
		case sequence.CauseGap:
			ends(EffectDead, reasons.Gap)
		default:
			ends(EffectDead, reasons.NoNumber)
		}
	}
	return ID{}
}

// jobs inserts new jobs for the moves that ask for one. A successor keeps its own
// event's place in the queue. At the end of the queue, ordered effects would wait for
// the whole queue a second time.
func (o *order) jobs(ctx context.Context, w *orderWrites) error {
	var ids []ID
	for i := range w.moves {
		if w.moves[i].newJob {
			ids = append(ids, w.moves[i].id)
		}
	}
	wakes, err := o.store.ReserveWakes(ctx, o.send, ids)
	if err != nil {
		return err
	}
	o.wakes = append(o.wakes, wakes...)
	for i := range w.moves {
		if m := &w.moves[i]; m.newJob {
			m.jobID, wakes = wakes[0].JobID, wakes[1:]
		}
	}
	return nil
}

var updateStreams = `
UPDATE stream s
SET applied = nullif(a.applied, '')::numeric, in_flight = a.in_flight, gap_since = a.gap_since, warned_at = a.warned_at,
    blocked_by = a.blocked_by, updated_at = now()
FROM unnest(` + movedStreamColumns.Arrays() + `) AS a (` + movedStreamColumns.Names() + `)
WHERE s.id = a.id`

var movedStreamColumns = row.ColumnsFrom(1,
	row.Bigint("id", func(s *orderStream) int64 { return s.id }),
	row.Text("applied", func(s *orderStream) string { return s.applied.String() }),
	row.UUID("in_flight", func(s *orderStream) ID { return s.inFlight }),
	row.Time("gap_since", func(s *orderStream) *time.Time { return row.Micros(s.gapSince) }),
	row.Time("warned_at", func(s *orderStream) *time.Time { return row.Micros(s.warnedAt) }),
	row.UUID("blocked_by", func(s *orderStream) ID { return s.blockedBy }),
)

// The statement moves only effects that wait, under their stream's lock. A superseded or
// skipped effect has made no attempt to record, and neither has one that is dead at
// once. If another transaction has locked a row, the statement fails at once, so that
// the caller can find that row alone and the other effects do not wait for it.
var moveEffects = `
WITH waiting AS MATERIALIZED (
    SELECT a.*
    FROM unnest(` + moveColumns.Arrays() + `) AS a (` + moveColumns.Names() + `)
    JOIN effect e ON e.id = a.id
    WHERE e.state IN ('pending', 'retry', 'held')
    ORDER BY e.id
    FOR UPDATE OF e NOWAIT)
UPDATE effect e
SET state = coalesce(nullif(a.state, ''), e.state),
    lease_token = a.token,
    lease_until = CASE WHEN a.state = 'claimed' THEN a.next_at END,
    next_at = CASE a.state WHEN 'claimed' THEN a.next_at WHEN 'held' THEN a.next_at WHEN 'pending' THEN now() WHEN '' THEN e.next_at END,
    job_id = coalesce(nullif(a.job_id, 0), e.job_id),
    attempts = CASE WHEN a.state = 'claimed' THEN e.attempts + 1 ELSE e.attempts END,
    send_started_at = CASE WHEN a.state = 'claimed' THEN NULL ELSE e.send_started_at END,
    finished_at = CASE WHEN a.state IN ('superseded', 'skipped') THEN now() END,
    reason = CASE WHEN a.state IN ('claimed', 'pending', '') THEN nullif(e.reason, 'sequence_gap') ELSE nullif(a.reason, '') END
FROM waiting a
WHERE e.id = a.id AND e.state IN ('pending', 'retry', 'held')`

var moveColumns = row.ColumnsFrom(1,
	row.UUID("id", func(m *orderMove) ID { return m.id }),
	row.Text("state", func(m *orderMove) EffectState { return m.state }),
	row.UUID("token", func(m *orderMove) ID { return m.token }),
	row.Time("next_at", func(m *orderMove) *time.Time { return row.Micros(m.nextAt) }),
	row.Text("reason", func(m *orderMove) reasons.Reason { return m.reason }),
	row.Bigint("job_id", func(m *orderMove) int64 { return m.jobID }),
)

// All waiting effects below the newest of a key, 1,000 at most. The rest is superseded
// by their own wake-ups or by the next decision.
const supersedeBelowNumber = `
WITH below AS MATERIALIZED (
    SELECT e.id
    FROM unnest($1::int[], $2::bytea[], $3::text[]) AS a (route_id, key_hash, number)
    CROSS JOIN LATERAL (
        SELECT f.id
        FROM effect f
        WHERE f.route_id = a.route_id AND f.sequence_key_hash = a.key_hash AND f.sequence_number < a.number::numeric
            AND f.state IN ('pending', 'retry', 'held') AND f.reason IS DISTINCT FROM 'sequence_number_taken'
        ORDER BY f.sequence_number, f.id
        LIMIT 1000
        FOR UPDATE OF f SKIP LOCKED) e),
passed AS (
    UPDATE effect e
    SET state = 'superseded', next_at = NULL, finished_at = now(), reason = NULL
    FROM below b
    WHERE e.id = b.id AND e.state IN ('pending', 'retry', 'held')
    RETURNING e.id, e.route_id)
SELECT p.route_id, array_agg(p.id)
FROM passed p
GROUP BY p.route_id`

// queue queues the statements of the decisions.
func (w *orderWrites) queue(b *pgx.Batch) {
	w.queueStreams(b)
	w.queueMoves(b)
	if len(w.below) > 0 {
		routes, hashes, numbers := make([]int32, len(w.below)), make([][]byte, len(w.below)), make([]string, len(w.below))
		counts := map[int32]*atomic.Uint64{}
		for i, s := range w.below {
			routes[i], hashes[i], numbers[i], counts[s.routeID] = s.routeID, s.hash, s.number.String(), s.count
		}
		b.Queue(supersedeBelowNumber, routes, hashes, numbers).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var routeID int32
				var ids []ID
				if err := rows.Scan(&routeID, &ids); err != nil {
					return err
				}
				counts[routeID].Add(uint64(len(ids)))
			}
			return rows.Err()
		})
	}
	for _, g := range w.gaps {
		g.queue(b)
	}
}

func (w *orderWrites) queueStreams(b *pgx.Batch) {
	if len(w.streams) > 0 {
		b.Queue(updateStreams, movedStreamColumns.Args(w.streams)...)
	}
}

func (w *orderWrites) queueMoves(b *pgx.Batch) {
	if len(w.moves) == 0 {
		return
	}
	b.Queue(moveEffects, moveColumns.Args(w.moves)...)
	var released []ID
	for i := range w.moves {
		if m := &w.moves[i]; m.state == EffectSuperseded || m.state == EffectSkipped {
			released = append(released, m.id)
		}
	}
	if len(released) > 0 {
		b.Queue(releaseKeys, released)
	}
}

// queue writes an audit entry for a gap that was abandoned, because nothing is dropped
// silently.
func (g abandonedGap) queue(b *pgx.Batch) {
	before, _ := json.Marshal(map[string]time.Time{"gap_since": g.since}) // both always marshal
	after, _ := json.Marshal(map[string]string{"first": g.gap.First.String(), "last": g.gap.Last.String()})
	b.Queue(insertAudit, NewID(g.at), g.at, "oncegate", AuditGapAbandoned, StreamObject(g.stream), "the policy's patience ended", before, after)
}
