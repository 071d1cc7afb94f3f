package move

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/sleep"
)

// heldBatch is how many streams, or effects without a stream, one transaction locks, and how many effects the other database commits at once.
const heldBatch = 200

const (
	// The second count is of effects that wait for their turn, because these are transferred with their streams.
	countUnfinished = `
SELECT (SELECT count(*) FROM effect e WHERE e.route_id = ANY ($1::int[]) AND e.next_at IS NOT NULL AND e.state <> 'held')
    + (SELECT count(*) FROM effect e WHERE e.route_id = ANY ($1::int[]) AND e.state IN ('dead', 'indeterminate')),
    (SELECT count(*) FROM effect e WHERE e.route_id = ANY ($1::int[]) AND e.state = 'held')`

	// The streams in which every open effect waits for its turn. Their locks keep the order's decisions out, because these lock a stream
	// first. SKIP LOCKED leaves a stream about which a decision is being made to the next round.
	lockWaitingStreams = `
SELECT s.id FROM stream s
WHERE s.route_id = ANY ($1::int[])
    AND EXISTS (SELECT FROM effect e WHERE e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash AND e.state = 'held')
    AND NOT EXISTS (
        SELECT FROM effect e WHERE e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash
            AND e.state IN ('pending', 'claimed', 'retry', 'dead', 'indeterminate'))
ORDER BY s.id
LIMIT $2
FOR UPDATE OF s SKIP LOCKED`

	// Effects that wait for a person have no stream, or no place in one.
	lockHeld = `
SELECT e.id FROM effect e
WHERE e.route_id = ANY ($1::int[]) AND e.state = 'held' AND (e.sequence_key_hash IS NULL OR e.sequence_number IS NULL)
ORDER BY e.id
LIMIT $2
FOR UPDATE OF e SKIP LOCKED`

	lockHeldOfStreams = `
SELECT e.id FROM stream s
JOIN effect e ON e.route_id = s.route_id AND e.sequence_key_hash = s.key_hash AND e.state = 'held' AND e.sequence_number IS NOT NULL
WHERE s.id = ANY ($1::bigint[])
ORDER BY e.id
FOR UPDATE OF e`

	// Nobody discards them: the other database carries them out.
	skipMoved = `
UPDATE effect SET state = 'skipped', reason = 'moved', next_at = NULL, finished_at = now(), revision = revision + 1 WHERE id = ANY ($1::uuid[])`

	readBodyDays = `
SELECT DISTINCT e.class, date_trunc('day', e.received_at, 'UTC') FROM inbox_event e JOIN effect f ON f.event_id = e.id
WHERE f.id = ANY ($1::uuid[]) AND e.class <> ALL ('{kept,erased}'::text[])`
)

// settle waits until the first database has completed the effects of routes that are ordered or have keys, and then has the other database
// continue.
func (m *Move) settle(ctx context.Context, s *source, report func(Step, func(*Progress))) error {
	for {
		for over := 1; over > 0; {
			var err error
			if over, err = m.handOver(ctx, s); err != nil {
				return err
			}
		}
		var unfinished, held int64
		if err := m.From.Pool.QueryRow(ctx, countUnfinished, s.careful).Scan(&unfinished, &held); err != nil {
			return err
		}
		report(StepOpen, func(p *Progress) { p.Unfinished = unfinished + held })
		if unfinished+held == 0 {
			ended, err := m.end(ctx, s)
			if err != nil {
				return err
			}
			if ended {
				break
			}
		}
		if err := sleep.For(ctx, settleEvery); err != nil {
			return err
		}
	}
	if err := m.positions(ctx, s); err != nil {
		return err
	}
	s.move.Step = StepSettled
	return nil
}

// handOver transfers effects that wait for an event or for a person to the other database, and returns their number. The other database commits
// first. If the first one then does not commit, the next call copies no row again and marks the effects; see also [Move.withdraw].
func (m *Move) handOver(ctx context.Context, s *source) (over int, err error) {
	err = pgx.BeginFunc(ctx, m.From.Pool, func(from pgx.Tx) error {
		streams, held, err := lockWaiting(ctx, from, s.careful)
		if err != nil {
			return err
		}
		over = len(held)
		// The streams stay locked until all of their effects are transferred. Otherwise this database could go on with the rest of one.
		for some := range slices.Chunk(held, heldBatch) {
			if err := m.makePartitions(ctx, from, some); err != nil {
				return err
			}
			err := pgx.BeginFunc(ctx, m.To.Pool, func(to pgx.Tx) error { return m.copyHeld(ctx, s, from.Conn(), to, streams, some) })
			if err != nil {
				return err
			}
		}
		_, err = from.Exec(ctx, skipMoved, held)
		return err
	})
	return over, err
}

// lockWaiting locks streams in which every open effect waits for its turn, with these effects, and effects that wait for a person.
func lockWaiting(ctx context.Context, tx pgx.Tx, careful []int32) (streams []int64, held []inbox.ID, err error) {
	rows, err := tx.Query(ctx, lockWaitingStreams, careful, heldBatch)
	if err == nil {
		streams, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return nil, nil, err
	}
	for _, found := range []struct {
		statement string
		args      []any
	}{{lockHeldOfStreams, []any{streams}}, {lockHeld, []any{careful, heldBatch}}} {
		rows, err := tx.Query(ctx, found.statement, found.args...)
		if err != nil {
			return nil, nil, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[inbox.ID])
		if err != nil {
			return nil, nil, err
		}
		held = append(held, ids...)
	}
	return streams, held, nil
}

// makePartitions makes the partitions for the bodies of effects in the other database.
func (m *Move) makePartitions(ctx context.Context, from pgx.Tx, effects []inbox.ID) error {
	rows, err := from.Query(ctx, readBodyDays, effects)
	if err != nil {
		return err
	}
	var class string
	var day time.Time
	_, err = pgx.ForEachRow(rows, []any{&class, &day}, func() error {
		return inbox.EnsurePartitions(ctx, m.To.Pool, []string{class}, day, 1)
	})
	return err
}

// copyHeld copies effects with their streams, events and bodies. One with a place is due, and its stream decides again.
func (m *Move) copyHeld(ctx context.Context, s *source, from *pgx.Conn, to pgx.Tx, streams []int64, held []inbox.ID) error {
	ids := uuids(held)
	events := "(SELECT f.event_id FROM effect f WHERE f.id = ANY (" + ids + "))"
	placed := "t.sequence_key_hash IS NOT NULL AND t.sequence_number IS NOT NULL AND t.reason IS DISTINCT FROM 'sequence_number_taken'"
	for _, t := range []transfer{
		m.streams(s, "WHERE t.id = ANY ("+list(streams)+"::bigint[])"),
		{
			table:  "inbox_event",
			change: map[string]string{"source_id": fmt.Sprintf("%d::int", s.to), "copied": "true"},
			where:  "WHERE t.id IN " + events, conflict: ` ON CONFLICT ON CONSTRAINT inbox_event_pkey DO UPDATE SET class = excluded.class`,
		},
		{table: "inbox_body", where: "WHERE (t.class, t.id) IN (SELECT v.class, v.body_id FROM inbox_event v WHERE v.id IN " + events + ")", conflict: doNothing},
		{table: "event_label", where: "WHERE t.event_id IN " + events, conflict: doNothing},
		{
			table: "effect",
			change: map[string]string{
				"route_id": mapped("t.route_id", s.routes, "int"), "job_id": "NULL::bigint",
				"state": "CASE WHEN " + placed + " THEN 'pending' ELSE t.state END", "next_at": "CASE WHEN " + placed + " THEN now() ELSE t.next_at END",
			},
			where: "WHERE t.id = ANY (" + ids + ")", conflict: doNothing,
		},
	} {
		if _, err := copyRows(ctx, from, to, t); err != nil {
			return err
		}
	}
	return nil
}

// streams describes the copy of the positions of sequences. The other database may have a stream already, because it has received.
func (m *Move) streams(s *source, condition string) transfer {
	return transfer{
		table: "stream",
		change: map[string]string{
			"route_id": mapped("t.route_id", s.routes, "int"), "definition_id": mapped("t.definition_id", s.definitions, "bigint"),
			"in_flight": "NULL::uuid", "blocked_by": "NULL::uuid",
		},
		where: condition,
		conflict: ` ON CONFLICT ON CONSTRAINT stream_key DO UPDATE
SET applied = greatest(stream.applied, excluded.applied), gap_since = coalesce(stream.gap_since, excluded.gap_since),
    started_at = least(stream.started_at, excluded.started_at), definition_id = coalesce(stream.definition_id, excluded.definition_id)`,
	}
}

// end has the first database refuse to carry out effects of the routes again, and returns false if one has begun meanwhile.
func (m *Move) end(ctx context.Context, s *source) (ended bool, err error) {
	err = locked(ctx, m.From.Pool, func(tx pgx.Tx) error {
		ended = false
		if len(s.careful) > 0 {
			condition := "NEW.route_id = ANY (" + list(s.careful) + "::int[]) AND NEW.state IN ('pending', 'claimed', 'retry', 'held')"
			// Creating the trigger waits for all transactions that write effects, so the next statement sees their changes.
			if err := trigger(ctx, tx, "effect", "effects", s.from, "BEFORE INSERT OR UPDATE", condition, "refuse_effect"); err != nil {
				return err
			}
			var unfinished, held int64
			if err := tx.QueryRow(ctx, countUnfinished, s.careful).Scan(&unfinished, &held); err != nil {
				return err
			}
			if unfinished+held > 0 {
				return untrigger(ctx, tx, "effect", "effects", s.from)
			}
		}
		if _, err := tx.Exec(ctx, writeStep, s.from, StepSettled); err != nil {
			return err
		}
		ended = true
		return m.audit(ctx, tx, inbox.AuditSourceMove, StepSettled)
	})
	return ended, err
}

// positions copies the positions of all sequences and the keys of all effects, with which the other database's routes begin to work.
func (m *Move) positions(ctx context.Context, s *source) error {
	if _, err := m.copyInBatches(ctx, m.streams(s, "t.route_id = ANY ("+list(s.careful)+"::int[])"), "id", "bigint", "0"); err != nil {
		return err
	}
	for _, route := range s.careful {
		keys := transfer{
			table: "effect_key", change: map[string]string{"route_id": mapped("t.route_id", s.routes, "int")},
			where: fmt.Sprintf("t.route_id = %d", route), conflict: doNothing,
		}
		if _, err := m.copyInBatches(ctx, keys, "key_hash", "bytea", `\x`); err != nil {
			return err
		}
	}
	if err := m.withdraw(ctx, s); err != nil {
		return err
	}
	if _, err := m.From.Pool.Exec(ctx, `DELETE FROM source_move_event WHERE source_id = $1`, s.from); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, m.To.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, writeStep, s.to, StepSettled); err != nil {
			return err
		}
		return m.audit(ctx, tx, inbox.AuditSourceMove, StepSettled)
	})
}

const (
	// The transferred effects that the other database has not begun. All of them wait until the move is settled.
	readTransferred = `
SELECT array_agg(e.id) FROM effect e JOIN inbox_event v ON v.id = e.event_id
WHERE v.source_id = $1 AND v.copied AND e.state IN ('pending', 'held') AND e.attempts = 0`

	readDecided = `
SELECT array_agg(a.id) FROM unnest($1::uuid[]) AS a (id)
JOIN effect e ON e.id = a.id AND NOT (e.state = 'skipped' AND e.reason = 'moved')`

	deleteDecided = `DELETE FROM effect WHERE id = ANY ($1::uuid[])`
)

// withdraw removes transferred effects from the other database about which a person has decided in the first one. That can happen if the move
// was interrupted after the other database had committed them and before the first one had.
func (m *Move) withdraw(ctx context.Context, s *source) error {
	var transferred, decided []inbox.ID
	if err := m.To.Pool.QueryRow(ctx, readTransferred, s.to).Scan(&transferred); err != nil || len(transferred) == 0 {
		return err
	}
	if err := m.From.Pool.QueryRow(ctx, readDecided, transferred).Scan(&decided); err != nil || len(decided) == 0 {
		return err
	}
	_, err := m.To.Pool.Exec(ctx, deleteDecided, decided)
	return err
}
