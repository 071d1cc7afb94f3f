package inbox

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/sequence"
)

// The limits of reading ahead in a stream, for a worker that carries out several of its
// effects: the number of effects, and the longest body that is read. They bound the memory of
// a worker.
const (
	aheadEffects = 32
	aheadBody    = 4 << 10
)

// followers are the effects after a claimed one in its stream, as they were when the claim was
// decided. They are only a forecast: a caller that acts on them checks under the stream's lock
// whether they are still right.
type followers struct {
	stream orderStream
	own    orderRow
	rows   []aheadRow // not before own, in their order
	cut    bool       // there may be more
}

// aheadRow is one of the effects that follow, with the body of its event if that was
// read.
type aheadRow struct {
	orderRow
	stored storedBody
}

// The effects of any state that are not before a claimed one in its stream. A body that
// several events share is read for each of them.
const readAhead = `
SELECT c.id, f.id, coalesce(f.sequence_number::text, ''), f.state, f.filtered, coalesce(f.next_at <= now(), false), coalesce(f.job_id, 0),
    v.class, v.body_id, v.body_offset, v.body_length, b.headers, b.body, b.key_id
FROM unnest($1::uuid[]) AS a (id)
JOIN effect c ON c.id = a.id
CROSS JOIN LATERAL (
    SELECT e.id, e.event_id, e.sequence_number, e.state, e.filtered, e.next_at, e.job_id
    FROM effect e
    WHERE e.route_id = c.route_id AND e.sequence_key_hash = c.sequence_key_hash AND e.sequence_number >= c.sequence_number
        AND e.id <> c.id AND e.reason IS DISTINCT FROM 'sequence_number_taken'
    ORDER BY e.sequence_number, e.id
    LIMIT $2) f
JOIN inbox_event v ON v.id = f.event_id
LEFT JOIN LATERAL (` + bodyOf + `) b ON v.body_length <= $3 AND f.state IN ('pending', 'retry', 'held')`

// queueReadAhead queues reading the effects that follow claimed ones. The map is filled when
// the batch has been read.
func (e *Effects) queueReadAhead(b *pgx.Batch, claimed []ID) map[ID][]aheadRow {
	following := make(map[ID][]aheadRow, len(claimed))
	b.Queue(readAhead, claimed, aheadEffects, aheadBody).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var claim ID
			var number string
			var row aheadRow
			body := &row.stored
			if err := rows.Scan(&claim, &row.id, &number, &row.state, &row.filtered, &row.due, &row.jobID,
				&body.class, &body.id, &body.offset, &body.length, &body.headers, &body.body, &body.keyID); err != nil {
				return err
			}
			if len(body.body) > aheadBody { // sealed, with the others of its delivery
				body.headers, body.body = nil, nil
			}
			row.number, _ = sequence.ParseNumber(number)
			following[claim] = append(following[claim], row)
		}
		return rows.Err()
	})
	return following
}

// aheadOf returns the followers of an effect of the stream that was claimed; nil if nothing
// follows.
func (s *orderStream) aheadOf(claim *Claim, rows []aheadRow) *followers {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b aheadRow) int { return compareRows(a.orderRow, b.orderRow) })
	number, _ := sequence.ParseNumber(claim.SequenceNumber)
	return &followers{
		stream: orderStream{routeID: s.routeID, hash: s.hash, id: s.id, applied: s.applied, startedAt: s.startedAt, definition: s.definition, policy: s.policy},
		own:    orderRow{id: claim.Effect, number: number, state: EffectClaimed},
		rows:   rows, cut: len(rows) == aheadEffects,
	}
}

// continuation is a settlement that is expected to change its stream only by claiming the next
// effect.
type continuation struct {
	settlement Settlement
	stream     int64
	applied    sequence.Number // which the stream must still have
	reached    sequence.Number // which the stream has afterwards
	floor      string          // from this number on, no other effect may wait before next
	next       *aheadRow
	token      ID
	lease      time.Duration // of the claim of next
	then       *followers    // followers of next, once it is claimed
}

// planContinuation returns the continuation of a settlement if its effect is done, its
// followers were read ahead and only the next effect remains to be claimed.
func (e *Effects) planContinuation(s *Settlement) (g continuation, ok bool) {
	route, known := e.routes[s.RouteID]
	if s.Of == nil || s.Of.ahead == nil || s.State != EffectDone || s.Chain == 0 || !known {
		return g, false
	}
	h := s.Of.ahead
	view := h.stream
	own := h.own
	own.state = EffectDone
	view.rows = make([]orderRow, 0, 1+len(h.rows))
	view.rows = append(view.rows, own)
	for i := range h.rows {
		view.rows = append(view.rows, h.rows[i].orderRow)
	}
	if view.cut = h.cut; h.cut {
		view.shown = h.rows[len(h.rows)-1].number
	}
	slices.SortFunc(view.rows, compareRows)
	order := h.stream.ordered(route)
	plan := sequence.Decide(order, view.view(), s.Of.StartedAt)
	run, ok := plan.Straight()
	if !ok || view.rows[run].state != EffectHeld {
		return g, false
	}
	at := slices.IndexFunc(h.rows, func(r aheadRow) bool { return r.id == view.rows[run].id })
	then := &followers{stream: h.stream, own: h.rows[at].orderRow, rows: h.rows[at+1:], cut: h.cut}
	then.stream.applied, then.own.state = plan.Applied, EffectClaimed
	return continuation{
		settlement: *s, stream: h.stream.id, applied: h.stream.applied, reached: plan.Applied, floor: leastNumber(order, h.own.number),
		next: &h.rows[at], token: e.token(), lease: route.Lease, then: then,
	}, true
}

// leastNumber returns the lowest number from which an effect that was inserted meanwhile comes
// before the next one. If the policy does not let late effects run, a late one is decided by
// itself.
func leastNumber(p sequence.Policy, own sequence.Number) string {
	if p.Mode == sequence.Contiguous && p.Late != sequence.LateApply {
		return own.String()
	}
	return "-Infinity"
}
