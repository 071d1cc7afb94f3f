package move

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

const (
	// keyTail is how many noted events may be left when the first database is closed. Copying them takes some milliseconds.
	keyTail = 500
)

const (
	countKeys = `SELECT count(*) FROM (SELECT FROM inbox_event WHERE source_id = $1 LIMIT 10000000) n`

	readPosition = `SELECT position, copied FROM source_move WHERE source_id = $1`

	// The events of the batch are in the same transaction, so a killed copy continues behind them.
	writePosition = `
UPDATE source_move SET position = $2, copied = copied + $3, changed_at = now() WHERE source_id = $1`

	// The last of the batch, by the index that the copy walks.
	readBatchEnd = `
SELECT max(b.event_id), count(*) FROM (
    SELECT e.event_id FROM inbox_event e WHERE e.source_id = $1 AND e.event_id > $2 ORDER BY e.event_id LIMIT $3) b`
)

// copyKeys copies all keys while the first database receives, and then closes that.
func (m *Move) copyKeys(ctx context.Context, s *source, report func(Step, func(*Progress))) error {
	var total, copied int64
	position := ""
	if err := m.From.Pool.QueryRow(ctx, countKeys, s.from).Scan(&total); err != nil {
		return err
	}
	if err := m.To.Pool.QueryRow(ctx, readPosition, s.to).Scan(&position, &copied); err != nil {
		return err
	}
	for {
		report(StepCopying, func(p *Progress) { p.Keys, p.Total = copied, max(total, copied) })
		var end *string
		var found int64
		if err := m.From.Pool.QueryRow(ctx, readBatchEnd, s.from, position, batch).Scan(&end, &found); err != nil {
			return err
		}
		if end == nil {
			break
		}
		err := m.copyEvents(ctx, s, fmt.Sprintf("WHERE t.source_id = %d AND t.event_id > %s AND t.event_id <= %s", s.from, quoted(position), quoted(*end)), func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, writePosition, s.to, *end, found)
			return err
		})
		if err != nil {
			return err
		}
		position, copied = *end, copied+found
	}
	// A copy that was killed may have written down what it then did not copy.
	if _, err := m.From.Pool.Exec(ctx, `UPDATE source_move_event SET copied = false WHERE source_id = $1 AND copied`, s.from); err != nil {
		return err
	}
	if err := m.copySuppressions(ctx, s); err != nil {
		return err
	}
	for left := keyTail + 1; left > keyTail; {
		var err error
		if left, err = m.copyNoted(ctx, s); err != nil {
			return err
		}
	}
	if err := m.close(ctx, s); err != nil {
		return err
	}
	s.move.Step = StepClosed
	report(StepClosed, nil)
	return nil
}

// copySuppressions copies the suppressed addresses that were not copied yet, to which the routes of the source must not write.
func (m *Move) copySuppressions(ctx context.Context, s *source) (err error) {
	s.suppressed, err = m.copyInBatches(ctx, transfer{table: "suppression", conflict: doNothing}, "id", "uuid", cmp.Or(s.suppressed, inbox.ID{}.String()))
	return err
}

// copyEvents copies the keys of events: their rows, which the other database shows to nobody but the gate. then runs in the same
// transaction.
func (m *Move) copyEvents(ctx context.Context, s *source, where string, then func(pgx.Tx) error) error {
	return m.fromConn(ctx, func(from *pgx.Conn) error {
		return pgx.BeginFunc(ctx, m.To.Pool, func(tx pgx.Tx) error {
			_, err := copyRows(ctx, from, tx, transfer{
				table: "inbox_event",
				change: map[string]string{
					"source_id": fmt.Sprintf("%d::int", s.to), "copied": "true",
					// A dead letter without an effect waits for a decision in the first database.
					"discarded_at": "CASE WHEN t.admission IN ('unusable', 'beyond_retention') THEN coalesce(t.discarded_at, now()) ELSE t.discarded_at END",
				},
				where: where, conflict: doNothing,
			})
			if err == nil && then != nil {
				err = then(tx)
			}
			return err
		})
	})
}

const (
	readNoted = `
SELECT array_agg(n.event_id) FROM (
    SELECT event_id FROM source_move_event WHERE source_id = $1 AND NOT copied ORDER BY event_id LIMIT $2) n`

	markNoted = `UPDATE source_move_event SET copied = true WHERE source_id = $1 AND event_id = ANY ($2::uuid[])`
)

// copyNoted copies the events that were noted, and returns how many there were. It marks them only after the copy, so that a killed one is repeated.
func (m *Move) copyNoted(ctx context.Context, s *source) (int, error) {
	var ids []inbox.ID
	if err := m.From.Pool.QueryRow(ctx, readNoted, s.from, batch).Scan(&ids); err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := m.copyEvents(ctx, s, "WHERE t.id = ANY ("+uuids(ids)+")", nil); err != nil {
		return 0, err
	}
	_, err := m.From.Pool.Exec(ctx, markNoted, s.from, ids)
	return len(ids), err
}

const (
	writeStep = `UPDATE source_move SET state = $2, changed_at = now() WHERE source_id = $1`

	// Every process reads the revision each second, and its configuration with where the sources live if it has changed.
	raiseRevision = `UPDATE source_definition_revision SET revision = revision + 1 RETURNING revision`
)

// close has the first database refuse the events of the source. The trigger's lock waits for the transactions that insert, and each of
// their events was noted.
func (m *Move) close(ctx context.Context, s *source) error {
	return locked(ctx, m.From.Pool, func(tx pgx.Tx) error {
		if err := refuseEvents(ctx, tx, s.from); err != nil {
			return err
		}
		if err := untrigger(ctx, tx, "inbox_event", "note", s.from); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, writeStep, s.from, StepClosed); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, raiseRevision); err != nil {
			return err
		}
		return m.audit(ctx, tx, inbox.AuditSourceMove, StepClosed)
	})
}

const (
	readArrival = `SELECT last_value FROM effect_arrival`

	// Events that arrive from now on come after all that the first database has numbered.
	raiseArrival = `SELECT setval('effect_arrival', greatest((SELECT last_value FROM effect_arrival), $1))`

	// The time of the move is not one in which the sender was silent.
	awaitSource = `UPDATE source SET awaited_since = now() WHERE id = $1`
)

// replaceDefinition replaces the definition that a source had before it left the other database.
const replaceDefinition = ` ON CONFLICT ON CONSTRAINT source_definition_pkey DO UPDATE
SET content = excluded.content, key_id = excluded.key_id, enabled = excluded.enabled, revision = excluded.revision, updated_at = excluded.updated_at,
    actor = excluded.actor, reason = excluded.reason`

// open copies the last keys and has the other database receive.
func (m *Move) open(ctx context.Context, s *source, report func(Step, func(*Progress))) error {
	report(StepClosed, nil)
	if err := m.copySuppressions(ctx, s); err != nil {
		return err
	}
	for left := 1; left > 0; {
		var err error
		if left, err = m.copyNoted(ctx, s); err != nil {
			return err
		}
	}
	var arrival int64
	if err := m.From.Pool.QueryRow(ctx, readArrival).Scan(&arrival); err != nil {
		return err
	}
	err := m.fromConn(ctx, func(from *pgx.Conn) error {
		return locked(ctx, m.To.Pool, func(tx pgx.Tx) error {
			if err := m.copyDefinitions(ctx, s, from, tx); err != nil { // a route may have become ordered meanwhile
				return err
			}
			if _, err := tx.Exec(ctx, raiseArrival, arrival); err != nil {
				return err
			}
			var revision int64
			if err := tx.QueryRow(ctx, raiseRevision).Scan(&revision); err != nil {
				return err
			}
			defined := transfer{table: "source_definition", change: map[string]string{"revision": fmt.Sprintf("%d::bigint", revision)}, where: "WHERE t.name = " + quoted(m.Source), conflict: replaceDefinition}
			if _, err := copyRows(ctx, from, tx, defined); err != nil {
				return err
			}
			if err := untrigger(ctx, tx, "inbox_event", "refuse", s.to); err != nil {
				return err
			}
			if err := untrigger(ctx, tx, "effect", "effects", s.to); err != nil { // the source left here before
				return err
			}
			if _, err := tx.Exec(ctx, awaitSource, s.to); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, writeStep, s.to, StepOpen); err != nil {
				return err
			}
			return m.audit(ctx, tx, inbox.AuditSourceMove, StepOpen)
		})
	})
	if err == nil {
		s.move.Step = StepOpen
	}
	return err
}
