package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// EventRow is an event as the database has it.
type EventRow struct {
	EventID   string
	SHA       []byte // the stored hash of the body
	BodySHA   []byte // the hash of the stored bytes
	Admission string
	Effects   int
}

// Database is the content of the tables at the end.
type Database struct {
	Events []EventRow

	// Applied counts the rows of the transactional target, by event id.
	Applied map[string]int

	// Conflicts has the payloads that conflict with an event, by its event id.
	Conflicts map[string][]ConflictRow

	// Unfinished counts the effects that are neither done nor duplicates, by state.
	Unfinished map[string]int
}

// ConflictRow is a conflicting payload: its stored hash, and the hash of the stored bytes.
type ConflictRow struct{ SHA, BodySHA []byte }

const readEvents = `
SELECT e.event_id, e.body_sha256, sha256(substring(b.body FROM e.body_offset + 1 FOR e.body_length)), e.admission,
    (SELECT count(*) FROM effect f WHERE f.event_id = e.id)
FROM inbox_event e LEFT JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id`

const readApplied = `SELECT event_id, count(*) FROM crash_applied GROUP BY event_id`

const readConflicts = `SELECT e.event_id, c.sha256, sha256(c.body) FROM conflict c JOIN inbox_event e ON e.id = c.event_id`

const readUnfinished = `SELECT state || coalesce(' ' || reason, ''), count(*) FROM effect WHERE state NOT IN ('done', 'duplicate') GROUP BY 1`

// Read reads the tables. The search_path of the connection must be the campaign's schema.
func Read(ctx context.Context, db rig.Querier) (*Database, error) {
	d := &Database{}
	rows, err := db.Query(ctx, readEvents)
	if err == nil {
		d.Events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[EventRow])
	}
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	if d.Applied, err = rig.CountBy(ctx, db, readApplied); err != nil {
		return nil, err
	}
	if d.Conflicts, err = readConflictRows(ctx, db); err != nil {
		return nil, err
	}
	d.Unfinished, err = rig.CountBy(ctx, db, readUnfinished)
	return d, err
}

func readConflictRows(ctx context.Context, db rig.Querier) (map[string][]ConflictRow, error) {
	rows, err := db.Query(ctx, readConflicts)
	if err != nil {
		return nil, fmt.Errorf("reading conflicts: %w", err)
	}
	out := map[string][]ConflictRow{}
	var id string
	var k ConflictRow
	_, err = pgx.ForEachRow(rows, []any{&id, &k.SHA, &k.BodySHA}, func() error {
		out[id] = append(out[id], ConflictRow{bytes.Clone(k.SHA), bytes.Clone(k.BodySHA)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading conflicts: %w", err)
	}
	return out, nil
}

// The kinds of violation.
const (
	Lost       rig.Kind = "lost"       // acknowledged and not recorded, or recorded and not carried out
	Doubled    rig.Kind = "doubled"    // recorded or carried out more than once
	Altered    rig.Kind = "altered"    // recorded or sent with other bytes
	Unexpected rig.Kind = "unexpected" // recorded or carried out without a signed delivery
	Unfinished rig.Kind = "unfinished" // not at rest when everything else was
	Misjudged  rig.Kind = "misjudged"  // a signed delivery refused, a forged one accepted, an odd answer
)

// EffectsPerEvent is the number of effects that the campaign's routes give each event.
const EffectsPerEvent = 2

// Check compares the ledgers of the senders and the target with the database.
func Check(sent map[string]SentEvent, db *Database, calls map[string]Requests) []rig.Violation {
	c := &checker{}
	recorded := make(map[string]bool, len(db.Events))
	orders := map[string][]string{} // the recorded events about each order
	for i := range db.Events {
		row := &db.Events[i]
		if recorded[row.EventID] {
			c.add(Doubled, "%s has two rows", row.EventID)
		}
		recorded[row.EventID] = true
		c.event(row, sent)
		c.effects(row, sent, calls[row.EventID])
		order := sent[row.EventID].Order
		orders[order] = append(orders[order], row.EventID)
	}
	for order, events := range orders {
		c.order(order, events, db.Applied, calls)
	}
	for id, e := range sent {
		c.sender(id, &e, recorded[id])
		c.conflicts(id, &e, db.Conflicts[id])
	}
	for id := range db.Applied {
		if !recorded[id] {
			c.add(Unexpected, "%s was applied and is not recorded", id)
		}
	}
	for id := range calls {
		if !recorded[id] {
			c.add(Unexpected, "%s was forwarded and is not recorded", id)
		}
	}
	for state, n := range db.Unfinished {
		c.add(Unfinished, "%d effects are %s", n, state)
	}
	slices.SortFunc(c.violations, func(a, b rig.Violation) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return c.violations
}

type checker struct{ violations []rig.Violation }

func (c *checker) add(kind rig.Kind, format string, args ...any) {
	c.violations = append(c.violations, rig.NewViolation(kind, format, args...))
}

func (c *checker) event(row *EventRow, sent map[string]SentEvent) {
	e, known := sent[row.EventID]
	switch {
	case !known:
		c.add(Unexpected, "%s was never sent", row.EventID)
	case e.Forged:
		c.add(Unexpected, "%s was only sent with a wrong signature", row.EventID)
	case !bytes.Equal(row.SHA, e.SHA[:]):
		c.add(Altered, "%s is recorded with another hash", row.EventID)
	case !bytes.Equal(row.BodySHA, e.SHA[:]):
		c.add(Altered, "%s is recorded with another body, or none", row.EventID)
	}
	if row.Admission != "ok" {
		c.add(Misjudged, "%s was admitted as %s", row.EventID, row.Admission)
	}
}

func (c *checker) effects(row *EventRow, sent map[string]SentEvent, calls Requests) {
	id := row.EventID
	switch {
	case row.Effects < EffectsPerEvent:
		c.add(Lost, "%s has %d effects", id, row.Effects)
	case row.Effects > EffectsPerEvent:
		c.add(Doubled, "%s has %d effects", id, row.Effects)
	}
	e, known := sent[id]
	for sum := range calls.Bodies {
		if known && sum != e.SHA {
			c.add(Altered, "%s was forwarded with another body", id)
		}
	}
}

// order checks the effects of all events about one order: both routes have it as their effect key, so that each carries
// out one of the events.
func (c *checker) order(order string, events []string, applied map[string]int, calls map[string]Requests) {
	times := 0
	var forwarded []string
	keys := map[string]bool{}
	for _, id := range events {
		times += applied[id]
		if calls[id].Count > 0 {
			forwarded = append(forwarded, id)
		}
		for key := range calls[id].Keys {
			keys[key] = true
		}
	}
	switch {
	case times == 0:
		c.add(Lost, "%s of %v was not applied", order, events)
	case times > 1:
		c.add(Doubled, "%s of %v was applied %d times", order, events, times)
	}
	switch {
	case len(forwarded) == 0:
		c.add(Lost, "%s of %v was not forwarded", order, events)
	case len(forwarded) > 1:
		c.add(Doubled, "%s was forwarded for each of %v", order, forwarded)
	case len(keys) != 1 || keys[""]:
		c.add(Doubled, "%s was forwarded under %d keys", order, len(keys))
	}
}

// keptConflicts is how many conflicting payloads of an event are kept at least: the newest ones.
const keptConflicts = 5

// conflicts checks that an acknowledged payload is kept, unless enough others may have come after it.
func (c *checker) conflicts(id string, e *SentEvent, rows []ConflictRow) {
	kept := map[[sha256.Size]byte]bool{}
	for _, row := range rows {
		sum := [sha256.Size]byte(row.SHA)
		if _, known := e.Conflicting[sum]; !known {
			c.add(Unexpected, "%s has a conflicting payload that was never sent", id)
		}
		if !bytes.Equal(row.SHA, row.BodySHA) {
			c.add(Altered, "%s has a conflicting payload with other bytes", id)
		}
		kept[sum] = true
	}
	if len(rows) > keptConflicts {
		c.add(Misjudged, "%s has %d conflicting payloads, more than are kept", id, len(rows))
	}
	for sum, o := range e.Conflicting {
		if o.Acked == 0 || kept[sum] {
			continue
		}
		later := 0
		for other, p := range e.Conflicting {
			if other != sum && p.LastAnsweredAt > o.LastAckSentAt {
				later++
			}
		}
		if later < keptConflicts {
			c.add(Lost, "%s had a conflicting payload acknowledged that is not kept, and %d others after it", id, later)
		}
	}
}

func (c *checker) sender(id string, e *SentEvent, recorded bool) {
	switch {
	case e.Forged && e.Acked > 0:
		c.add(Misjudged, "%s was acknowledged with a wrong signature", id)
	case e.Forged:
		return
	case e.Acked > 0 && !recorded:
		c.add(Lost, "%s was acknowledged and is not recorded", id)
	}
	if e.Recorded > 1 {
		c.add(Doubled, "%s was called new %d times", id, e.Recorded)
	}
	if e.Refused > 0 {
		c.add(Misjudged, "%s was refused %d times", id, e.Refused)
	}
	if e.OddAnswers > 0 {
		c.add(Misjudged, "%s got %d odd answers", id, e.OddAnswers)
	}
}
