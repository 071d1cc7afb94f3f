package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// Recorded is an event as the database has it.
type Recorded struct {
	EventID   string
	SHA       []byte // as stored beside it
	BodySHA   []byte // of the bytes that are stored
	Admission string
	Effects   int
	Done      int
}

// Database is what the database says at the end.
type Database struct {
	Events []Recorded

	// Applied counts the rows of the transactional target, by event id.
	Applied map[string]int

	// Kept are the payloads that conflict with an event, by its event id: the hash that
	// stands beside each, and that of the bytes that are stored.
	Kept map[string][]Kept

	// Unfinished counts the effects that are not done, by state.
	Unfinished map[string]int
}

// Kept is a payload that is kept beside its event.
type Kept struct{ SHA, BodySHA []byte }

const readEvents = `
SELECT e.event_id, e.body_sha256, sha256(substring(b.body FROM e.body_offset + 1 FOR e.body_length)), e.admission,
    (SELECT count(*) FROM effect f WHERE f.event_id = e.id),
    (SELECT count(*) FROM effect f WHERE f.event_id = e.id AND f.state = 'done')
FROM inbox_event e LEFT JOIN inbox_body b ON b.class = e.class AND b.id = e.body_id`

const readApplied = `SELECT event_id, count(*) FROM crash_applied GROUP BY event_id`

const readKept = `SELECT e.event_id, c.sha256, sha256(c.body) FROM conflict c JOIN inbox_event e ON e.id = c.event_id`

const readUnfinished = `SELECT state || coalesce(' ' || reason, ''), count(*) FROM effect WHERE state <> 'done' GROUP BY 1`

// Read reads the database; its search_path must be the campaign's schema.
func Read(ctx context.Context, db rig.Querier) (*Database, error) {
	d := &Database{}
	rows, err := db.Query(ctx, readEvents)
	if err == nil {
		d.Events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Recorded])
	}
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	if d.Applied, err = rig.CountBy(ctx, db, readApplied); err != nil {
		return nil, err
	}
	if d.Kept, err = kept(ctx, db); err != nil {
		return nil, err
	}
	d.Unfinished, err = rig.CountBy(ctx, db, readUnfinished)
	return d, err
}

func kept(ctx context.Context, db rig.Querier) (map[string][]Kept, error) {
	rows, err := db.Query(ctx, readKept)
	if err != nil {
		return nil, fmt.Errorf("reading conflicts: %w", err)
	}
	out := map[string][]Kept{}
	var id string
	var k Kept
	_, err = pgx.ForEachRow(rows, []any{&id, &k.SHA, &k.BodySHA}, func() error {
		out[id] = append(out[id], Kept{bytes.Clone(k.SHA), bytes.Clone(k.BodySHA)})
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
	Alien      rig.Kind = "alien"      // recorded or carried out without a signed delivery
	Unfinished rig.Kind = "unfinished" // not at its end after everything has come to rest
	Misjudged  rig.Kind = "misjudged"  // a signed delivery refused, a forged one accepted, an odd answer
)

// EffectsEach is how many effects the routes of a campaign give an event.
const EffectsEach = 2

// Check compares the ledgers of the senders and the target with the database.
func Check(sent map[string]Sent, db *Database, calls map[string]Calls) []rig.Violation {
	c := &checker{}
	recorded := make(map[string]bool, len(db.Events))
	for i := range db.Events {
		row := &db.Events[i]
		if recorded[row.EventID] {
			c.add(Doubled, "%s has two rows", row.EventID)
		}
		recorded[row.EventID] = true
		c.event(row, sent)
		c.effects(row, sent, db.Applied[row.EventID], calls[row.EventID])
	}
	for id, e := range sent {
		c.sender(id, &e, recorded[id])
		c.conflicts(id, &e, db.Kept[id])
	}
	for id := range db.Applied {
		if !recorded[id] {
			c.add(Alien, "%s was applied and is not recorded", id)
		}
	}
	for id := range calls {
		if !recorded[id] {
			c.add(Alien, "%s was forwarded and is not recorded", id)
		}
	}
	for state, n := range db.Unfinished {
		c.add(Unfinished, "%d effects are %s", n, state)
	}
	slices.SortFunc(c.found, func(a, b rig.Violation) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return c.found
}

type checker struct{ found []rig.Violation }

func (c *checker) add(kind rig.Kind, format string, args ...any) {
	c.found = append(c.found, rig.NewViolation(kind, format, args...))
}

func (c *checker) event(row *Recorded, sent map[string]Sent) {
	e, known := sent[row.EventID]
	switch {
	case !known:
		c.add(Alien, "%s was never sent", row.EventID)
	case e.Forged:
		c.add(Alien, "%s was only sent with a wrong signature", row.EventID)
	case !bytes.Equal(row.SHA, e.SHA[:]):
		c.add(Altered, "%s is recorded with another hash", row.EventID)
	case !bytes.Equal(row.BodySHA, e.SHA[:]):
		c.add(Altered, "%s is recorded with another body, or none", row.EventID)
	}
	if row.Admission != "ok" {
		c.add(Misjudged, "%s was admitted as %s", row.EventID, row.Admission)
	}
}

func (c *checker) effects(row *Recorded, sent map[string]Sent, applied int, calls Calls) {
	id := row.EventID
	switch {
	case row.Effects < EffectsEach:
		c.add(Lost, "%s has %d effects", id, row.Effects)
	case row.Effects > EffectsEach:
		c.add(Doubled, "%s has %d effects", id, row.Effects)
	}
	switch {
	case applied == 0:
		c.add(Lost, "%s was not applied", id)
	case applied > 1:
		c.add(Doubled, "%s was applied %d times", id, applied)
	}
	switch {
	case calls.Count == 0:
		c.add(Lost, "%s was not forwarded", id)
	case len(calls.Keys) != 1 || calls.Keys[""] > 0:
		c.add(Doubled, "%s was forwarded under %d keys", id, len(calls.Keys))
	}
	e, known := sent[id]
	for sum := range calls.Bodies {
		if known && sum != e.SHA {
			c.add(Altered, "%s was forwarded with another body", id)
		}
	}
}

// mostKept is how many payloads of an event are kept at least, the newest ones.
const mostKept = 5

// conflicts: a payload that was acknowledged is kept, unless so many others may have
// come after it.
func (c *checker) conflicts(id string, e *Sent, rows []Kept) {
	kept := map[[sha256.Size]byte]bool{}
	for _, row := range rows {
		sum := [sha256.Size]byte(row.SHA)
		if _, known := e.Others[sum]; !known {
			c.add(Alien, "%s has a conflicting payload that was never sent", id)
		}
		if !bytes.Equal(row.SHA, row.BodySHA) {
			c.add(Altered, "%s has a conflicting payload with other bytes", id)
		}
		kept[sum] = true
	}
	if len(rows) > mostKept {
		c.add(Misjudged, "%s has %d conflicting payloads, more than are kept", id, len(rows))
	}
	for sum, o := range e.Others {
		if o.Acked == 0 || kept[sum] {
			continue
		}
		later := 0
		for other, p := range e.Others {
			if other != sum && p.LastTo > o.AckedFrom {
				later++
			}
		}
		if later < mostKept {
			c.add(Lost, "%s had a conflicting payload acknowledged that is not kept, and %d others after it", id, later)
		}
	}
}

func (c *checker) sender(id string, e *Sent, recorded bool) {
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
	if e.Odd > 0 {
		c.add(Misjudged, "%s got %d odd answers", id, e.Odd)
	}
}
