package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// A settlement that goes on with the next effect of its stream as it was foreseen, in
// one statement: it locks the stream, looks whether everything is as it should be,
// settles, moves the stream on and claims. Where something is not, it does nothing,
// and the settlement decides anew. Its snapshot is older than the lock, so that it
// may not see what came a moment before; but it always leaves an effect claimed, and
// what ends that one looks again. The order of locks is that of every other decision, and
// it waits for nothing that another session has locked.
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

// goingColumns are what follows in the stream of each settlement.
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

// continueGroup ends attempts whose streams go on as foreseen. What is not as foreseen is left
// as it is, and answered as not applied.
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

// bodied gives a claim the body of its event, which was read ahead, or is in read; one
// that has been moved since is read where it is now.
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
	row.open(e.keys) // its lease has ended already: whoever sends finds that out
	return &row.claim, nil
}

func (e *Effects) goOnArguments(group []continuation) []any {
	ends := make([]Settlement, len(group))
	for i := range group {
		ends[i] = group[i].settlement
	}
	return goingColumns.Append(e.settleArguments(ends, 8), group)
}
