package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/sleep"
)

// These statements settle effects of streams: they lock the streams, and end the
// effects whose streams they obtained as [settleEffects] does. An effect is not in the
// answer if another transaction has locked it or its stream. It delays no other effect,
// and its settlement is tried again. A row without a place describes a stream.
var (
	settleInObtainedStreams = settleInStreamsBegin + `
    FOR UPDATE OF s SKIP LOCKED),` + settleInStreamsEnd

	// A settlement alone may wait a moment for its stream, because it might never find
	// the stream free while many claims use it.
	settleInAwaitedStream = settleInStreamsBegin + `
    FOR UPDATE OF s),` + settleInStreamsEnd

	settleInStreamsBegin = `
WITH asked AS (
    SELECT *
    FROM unnest(` + settleArrays + `,
        ` + settleStreamColumns.Arrays() + `) WITH ORDINALITY
        AS a (` + settleNames + `,
            ` + settleStreamColumns.Names() + `, place)),
streams AS MATERIALIZED (
    SELECT a.*, s.id AS stream_id, s.applied, s.gap_since, s.warned_at, s.in_flight, s.blocked_by,
        s.started_at AS stream_started_at, clock_timestamp() AS locked_at,
        coalesce(s.definition_id, 0) AS definition
    FROM asked a
    JOIN stream s ON s.route_id = a.route_id AND s.key_hash = a.key_hash
    ORDER BY s.id`

	settleInStreamsEnd = `
reached AS MATERIALIZED (
    SELECT a.*, ` + fenceHolds + ` AS fenced
    FROM streams a
    JOIN effect e ON e.id = a.id
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED),
held AS (SELECT * FROM reached WHERE fenced),
settled AS (` + endHeld + `),` + recordAttempts + `
SELECT place, true, NULL::int, NULL::bytea, NULL::bigint, NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::uuid, NULL::uuid,
    NULL::timestamptz, NULL::timestamptz, NULL::bigint
FROM settled
UNION ALL
SELECT place, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM reached
WHERE fenced IS NOT TRUE
UNION ALL
SELECT NULL, false, route_id, key_hash, stream_id, coalesce(applied::text, ''), gap_since, warned_at, in_flight, blocked_by,
    stream_started_at, locked_at, definition
FROM streams`
)

// settleStreamColumns are the streams of a group of settlements.
var settleStreamColumns = row.ColumnsFrom(settleColumnsBehindNode.Next(),
	row.Int("route_id", func(s *Settlement) int32 { return s.RouteID }),
	row.Bytes("key_hash", func(s *Settlement) []byte { return s.SequenceKeyHash }),
)

// streamPatience is how long a settlement alone waits for its stream.
const streamPatience = 100 * time.Millisecond

const boundLockWait = `SELECT set_config('lock_timeout', $1, true)`

// settleOrderedGroup ends attempts of ordered routes, in a separate transaction.
func (e *Effects) settleOrderedGroup(ctx context.Context, group []Settlement) ([]Settled, error) {
	return e.settleOrdered(ctx, group, e.newOrder(nil))
}

// settleOrderedAlone ends one attempt, and waits a moment for its stream.
func (e *Effects) settleOrderedAlone(ctx context.Context, s Settlement) (Settled, error) {
	o := e.newOrder(nil)
	o.patient = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.orderedSettles.Timeout)
	defer cancel()
	out, err := e.settleOrdered(ctx, []Settlement{s}, o)
	if err != nil {
		return Settled{}, err
	}
	return out[0], nil
}

func (e *Effects) settleOrdered(ctx context.Context, group []Settlement, o *order) ([]Settled, error) {
	var out []Settled
	err := e.ownTx(ctx, func(_ *pgxpool.Conn, send func(context.Context, *pgx.Batch) error) error {
		o.send = send
		var first, last pgx.Batch
		first.Queue("BEGIN")
		if o.patient {
			first.Queue(boundLockWait, fmt.Sprintf("%dms", streamPatience.Milliseconds()))
		}
		settled, err := o.settle(ctx, &first, &last, group)
		if err != nil {
			return err
		}
		last.Queue("COMMIT")
		if err := send(ctx, &last); err != nil {
			return err
		}
		o.committed()
		out = settled()
		return nil
	})
	return out, err
}

// settleOrderedTx ends attempts of ordered routes in the caller's transaction.
func (e *Effects) settleOrderedTx(ctx context.Context, db row.Batcher, group []Settlement) ([]Settled, error) {
	o := e.newOrder(sendTo(db))
	var first, last pgx.Batch
	settled, err := o.settle(ctx, &first, &last, group)
	if err != nil {
		return nil, err
	}
	if err := o.send(ctx, &last); err != nil {
		return nil, err
	}
	o.committed()
	return settled(), nil
}

// queueEnd ends the effects at the given places of the group whose streams it
// obtains.
func (o *order) queueEnd(b *pgx.Batch, group []Settlement, places []int) {
	part := make([]Settlement, len(places))
	for i, at := range places {
		part[i] = group[at]
	}
	statement := settleInObtainedStreams
	if o.patient {
		statement = settleInAwaitedStream
	}
	args := settleStreamColumns.Append(o.store.settleArguments(part, 2), part)
	b.Queue(statement, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var place *int64
			var ended bool
			var found foundStream
			if err := rows.Scan(append([]any{&place, &ended}, found.into()...)...); err != nil {
				return err
			}
			if place == nil {
				o.obtained(found.stream())
				continue
			}
			at := places[*place-1]
			o.tried[at], o.applied[at] = true, ended
		}
		return rows.Err()
	})
	queueAfterEnd(b, part, args[0])
}

// settle ends the effects, decides what follows for their streams and queues the writes
// on last. The caller calls the returned function after it has read last.
func (o *order) settle(ctx context.Context, first, last *pgx.Batch, group []Settlement) (func() []Settled, error) {
	ids, places := make([]ID, len(group)), make([]int, len(group))
	for i := range group {
		ids[i], places[i] = group[i].Effect, i
		s := o.streamFor(group[i].RouteID, group[i].SequenceKeyHash)
		if group[i].Chain != 0 && s.chain == nil {
			s.chain = &orderAsk{token: o.store.token(), jobID: group[i].Chain, routeID: group[i].RouteID}
		}
	}
	o.tried, o.applied = make([]bool, len(group)), make([]bool, len(group))
	o.queueEnd(first, group, places)
	o.queueNamed(first, readAsked, ids)
	o.queueRead(first, o.streams)
	if err := o.send(ctx, first); err != nil {
		return nil, err
	}
	if err := o.settleMissed(ctx, group, ids); err != nil {
		return nil, err
	}
	if err := o.learn(ctx); err != nil {
		return nil, err
	}
	if err := o.unchain(ctx, group, o.applied, last); err != nil {
		return nil, err
	}
	if err := o.decide(ctx, ids, last); err != nil {
		return nil, err
	}
	var next, tokens []ID
	for i := range group {
		if c := o.streamFor(group[i].RouteID, group[i].SequenceKeyHash).chain; c != nil && !c.claimed.IsZero() {
			next, tokens = append(next, c.claimed), append(tokens, c.token)
		}
	}
	var claims claimRows
	var following map[ID][]aheadRow
	if len(next) > 0 {
		claims, following = o.store.queueReadClaims(last, next, tokens), o.store.queueReadAhead(last, next)
	}
	standings := queueStandings(last, ids)
	return func() []Settled {
		out := make([]Settled, len(group))
		for i, s := range group {
			out[i] = Settled{Applied: o.applied[i], Standing: standings[s.Effect]}
			out[i].locked = !o.tried[i] && out[i].Standing.Found
			stream := o.streamFor(s.RouteID, s.SequenceKeyHash)
			if c := stream.chain; c != nil && s.Chain != 0 && !c.claimed.IsZero() {
				out[i].Next = claims.answer(c.claimed, c.token).claim
				if out[i].Next != nil {
					out[i].Next.Late = c.late
					out[i].Next.ahead = stream.aheadOf(out[i].Next, following[c.claimed])
				}
				c.claimed = ID{} // only one settlement continues with it
			}
		}
		return out
	}, nil
}

// settleMissed tries once more those whose streams were missed: a stream that has no
// row gets one.
func (o *order) settleMissed(ctx context.Context, group []Settlement, ids []ID) error {
	missed := o.missed()
	if len(missed) == 0 {
		return nil
	}
	var places []int
	for i := range group {
		if o.streamFor(group[i].RouteID, group[i].SequenceKeyHash).id == 0 {
			places = append(places, i)
		}
	}
	var again pgx.Batch
	routes, hashes := columnsOf(missed)
	again.Queue(insertMissingStreams, routes, hashes, o.definitionsOf(missed))
	o.queueEnd(&again, group, places)
	o.queueNamed(&again, readAsked, ids)
	o.queueRead(&again, o.streams)
	return o.send(ctx, &again)
}

// unchain gives separate jobs to effects that wait again, because the job that carried
// them in a chain belongs to another effect. It ends the chain of a stream with such an
// effect, so that a job never has to wake one effect while it carries another.
func (o *order) unchain(ctx context.Context, group []Settlement, applied []bool, last *pgx.Batch) error {
	var w orderWrites
	for i, s := range group {
		if applied[i] && !s.State.Waiting() {
			continue
		}
		o.streamFor(s.RouteID, s.SequenceKeyHash).chain = nil
		if applied[i] && s.NewJob {
			w.moves = append(w.moves, orderMove{id: s.Effect, newJob: true})
		}
	}
	if err := o.jobs(ctx, &w); err != nil {
		return err
	}
	w.queueMoves(last)
	return nil
}

// settleLocked repeats a settlement whose stream or effect another transaction has
// locked, until ctx ends. While it waits it uses no connection, except that a few
// settlements at a time wait a moment for their stream. That gives a settlement its
// turn if the stream is merely busy.
func (e *Effects) settleLocked(ctx context.Context, s Settlement, group *row.Group[Settlement, Settled]) (Settled, error) {
	const first, most = 2 * time.Millisecond, 250 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		var out Settled
		var err error
		select {
		case e.patience <- struct{}{}:
			if group == &e.orderedSettles {
				out, err = e.settleOrderedAlone(ctx, s)
			} else {
				out, err = group.Do(ctx, s)
			}
			<-e.patience
		default:
			out, err = group.Do(ctx, s)
		}
		switch {
		case row.IsLocked(err):
			out.locked = true
		case err != nil, !out.locked:
			return out, err
		}
		if group == &e.orderedSettles {
			e.locked.report(ctx, e.pool, s.RouteID, s.SequenceKeyHash)
		}
		if err := sleep.For(ctx, pause); err != nil {
			return Settled{}, fmt.Errorf("%w: %w", ErrLocked, err)
		}
	}
}

// ErrLocked is returned for an effect if another transaction has kept its row, or its
// stream's row, locked.
var ErrLocked = errors.New("its row, or its stream's, is locked by another session")
