package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// continueInStreams settles an effect and claims the next one of its stream, as planned, in
// one statement: it locks the stream, checks whether everything is as planned, settles,
// advances the stream and claims. If anything differs, it does nothing, and the caller settles
// with a new decision. Its snapshot is older than the lock, so it may miss a change that was
// committed a moment before. That is safe because it always leaves an effect claimed, and the
// settlement of that effect reads the stream again. It takes locks in the same order as every
// other decision, and does not wait for locks of other sessions.
var continueInStreams = `
WITH asked AS (
    SELECT *
    FROM unnest(` + settleArrays + `,
        ` + goingColumns.Arrays() + `) WITH ORDINALITY
        AS a (` + settleNames + `,
            ` + goingColumns.Names() + `, place)),
streams AS MATERIALIZED (
    SELECT a.*, s.route_id, s.key_hash
    FROM asked a
    JOIN stream s ON s.id = a.stream
    WHERE s.in_flight = a.id AND s.applied IS NOT DISTINCT FROM nullif(a.applied, '')::numeric
        AND s.gap_since IS NULL AND s.warned_at IS NULL AND s.blocked_by IS NULL
    ORDER BY s.id
    FOR UPDATE OF s SKIP LOCKED),
ready AS MATERIALIZED (
    SELECT l.*
    FROM streams l
    JOIN effect e ON e.id = l.next
    WHERE e.state = 'held' AND NOT e.filtered
        AND e.reason IS DISTINCT FROM 'sequence_number_taken'
        AND NOT EXISTS (
            SELECT FROM effect o
            WHERE o.route_id = l.route_id AND o.sequence_key_hash = l.key_hash AND o.sequence_number >= l.floor::numeric
                AND (o.sequence_number, o.id) < (e.sequence_number, e.id)
                AND o.state IN ('pending', 'retry', 'held') AND o.reason IS DISTINCT FROM 'sequence_number_taken')
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
held AS MATERIALIZED (
    SELECT a.*
    FROM ready a
    JOIN effect e ON e.id = a.id
    WHERE e.lease_token = a.token
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
settled AS (` + endHeld + `,
        a.stream, a.reached, a.next, a.next_token, a.lease, a.next_job),` + recordAttempts + `,
moved AS (
    UPDATE stream s
    SET applied = nullif(d.reached, '')::numeric, in_flight = d.next, updated_at = now()
    FROM settled d
    WHERE s.id = d.stream),
claimed AS (
    UPDATE effect e
    SET state = 'claimed', lease_token = d.next_token, lease_until = now() + d.lease * interval '1 microsecond',
        next_at = now() + d.lease * interval '1 microsecond', job_id = d.next_job, attempts = e.attempts + 1, send_started_at = NULL,
        reason = nullif(e.reason, 'sequence_gap')
    FROM settled d
    WHERE e.id = d.next
    RETURNING e.*, d.place)
SELECT` + claimColumns + `, NULL::bytea, NULL::bytea, NULL::int, e.place
FROM claimed e
JOIN inbox_event v ON v.id = e.event_id`

// goingColumns describe the next effect in the stream of each settlement.
var goingColumns = row.ColumnsFrom(settleColumnsBehindNode.Next(),
	row.Bigint("stream", func(g *continuation) int64 { return g.stream }),
	row.Text("applied", func(g *continuation) string { return g.applied.String() }),
	row.Text("reached", func(g *continuation) string { return g.reached.String() }),
	row.Text("floor", func(g *continuation) string { return g.floor }),
	row.UUID("next", func(g *continuation) ID { return g.next.id }),
	row.UUID("next_token", func(g *continuation) ID { return g.token }),
	row.Bigint("lease", func(g *continuation) int64 { return g.lease.Microseconds() }),
	row.Bigint("next_job", func(g *continuation) int64 { return g.settlement.Chain }),
)

// continueGroup ends attempts whose streams continue as planned. It leaves a settlement alone
// if its stream is not as planned, and returns it as not applied.
func (e *Effects) continueGroup(ctx context.Context, group []continuation) ([]Settled, error) {
	var b pgx.Batch
	claimed := make([]*claimRow, len(group))
	b.Queue(e.continueStatement, e.goOnArguments(group)...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			row, place := new(claimRow), 0
			if err := row.scan(rows, &place); err != nil {
				return err
			}
			claimed[place-1] = row
		}
		return rows.Err()
	})
	// Bodies that were too long to be read ahead are read in the same transaction.
	var ids, tokens []ID
	for i := range group {
		if g := &group[i]; g.next.stored.body == nil {
			ids, tokens = append(ids, g.next.id), append(tokens, g.token)
		}
	}
	var read claimRows
	if len(ids) > 0 {
		read = e.queueReadClaims(&b, ids, tokens)
	}
	if err := e.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	out := make([]Settled, len(group))
	for i, row := range claimed {
		if row == nil {
			continue
		}
		g := &group[i]
		next, err := e.claimWithBody(ctx, g, row, read)
		if err != nil {
			return nil, err
		}
		next.ahead = g.then
		if len(g.then.rows) == 0 {
			next.ahead = nil
		}
		out[i] = Settled{
			Applied: true, Next: next,
			Standing: Standing{Found: true, State: g.settlement.State, RouteID: g.settlement.RouteID, JobID: g.settlement.Chain},
		}
	}
	return out, nil
}

// claimWithBody sets the body of the event in a claim: the one that was read ahead, or the one
// in read. If the body has been moved since, it reads it from its new place.
func (e *Effects) claimWithBody(ctx context.Context, g *continuation, row *claimRow, read claimRows) (*Claim, error) {
	known := &g.next.stored
	if known.body != nil && known.class == row.stored.class && known.id == row.stored.id {
		row.stored = *known
		row.open(e.keys)
		return &row.claim, nil
	}
	if known.body != nil {
		var b pgx.Batch
		read = e.queueReadClaims(&b, []ID{g.next.id}, []ID{g.token})
		if err := e.pool.SendBatch(ctx, &b).Close(); err != nil {
			return nil, err
		}
	}
	if claim := read.answer(g.next.id, g.token).claim; claim != nil {
		return claim, nil
	}
	row.open(e.keys) // the lease has already ended, which the sender will notice
	return &row.claim, nil
}

func (e *Effects) goOnArguments(group []continuation) []any {
	ends := make([]Settlement, len(group))
	for i := range group {
		ends[i] = group[i].settlement
	}
	return goingColumns.Append(e.settleArguments(ends, 8), group)
}
