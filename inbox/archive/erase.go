package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// An installation that never had an archive writes no row.
const noteErasure = `
INSERT INTO archive_erasure (event_id, body_id)
SELECT e.id, e.body_id FROM inbox_event e WHERE e.id = ANY ($1::uuid[]) AND ($2::boolean OR EXISTS (SELECT FROM archive_object))
ON CONFLICT DO NOTHING`

// NoteErasure notes in the transaction that erases events that their archived content has to go. The caller then calls
// [Archive.Erase].
func (a *Archive) NoteErasure(ctx context.Context, tx pgx.Tx, events []inbox.ID) error {
	_, err := tx.Exec(ctx, noteErasure, events, a.Configured())
	return err
}

// The objects that may contain the noted events, in every state: one that is being written may contain them too.
var findErasable = `
WITH noted AS MATERIALIZED (SELECT event_id, body_id FROM archive_erasure WHERE $1::uuid[] IS NULL OR event_id = ANY ($1::uuid[]) ORDER BY event_id LIMIT 1000)
SELECT n.event_id, n.body_id, a.name, a.kind, a.class, a.first_key, a.last_key, a.state, a.size, a.index_offset
FROM noted n
LEFT JOIN LATERAL (
    SELECT * FROM archive_object b
    WHERE b.kind = 'body' AND b.day = ` + row.DayOf("n.body_id") + ` AND b.first_key <= n.body_id AND b.last_key >= n.body_id
    UNION ALL
    SELECT * FROM archive_object c
    WHERE c.kind = 'conflict' AND c.day = ` + row.DayOf("n.event_id") + ` AND c.first_key <= n.event_id AND c.last_key >= n.event_id) a ON true
ORDER BY a.name`

const forgetErasures = `DELETE FROM archive_erasure WHERE event_id = ANY ($1::uuid[])`

// Erased counts what [Archive.Erase] did.
type Erased struct {
	// Lines are the lines that were removed, or in which the events were blanked.
	Lines int
	// Unopened are lines of which other events need the body, and that are sealed with a key that is not in the keyring: the
	// events' bytes could not be blanked. They are blanked when the line is sealed again with the key.
	Unopened int
}

// eraseRounds bounds how often [Archive.Erase] looks for objects. Another process may write one again meanwhile.
const eraseRounds = 10

// Erase removes the noted events among events from every object, and forgets the notes. nil means all notes, up to 1,000. It is
// complete only if it returns no error: then it has looked again, and no object has any of the events.
func (a *Archive) Erase(ctx context.Context, keys *seal.Keyring, events []inbox.ID) (out Erased, err error) {
	if a == nil {
		return out, nil
	}
	for round := range eraseRounds {
		noted, objects, err := a.erasable(ctx, events)
		if err != nil || len(noted) == 0 {
			return out, err
		}
		clean := true
		for _, o := range objects {
			none, err := a.eraseFrom(ctx, keys, o, noted, round > 0, &out)
			if err != nil {
				return out, err
			}
			clean = clean && none
		}
		if !clean {
			continue
		}
		if _, err := a.cfg.Pool.Exec(ctx, forgetErasures, noted); err != nil {
			return out, fmt.Errorf("noting that the archive is erased: %w", err)
		}
		return out, nil
	}
	return out, &UnavailableError{errors.New("other processes write the objects again and again")}
}

// candidate is an object that may contain noted events.
type candidate struct {
	object
	keys []inbox.ID
}

func (a *Archive) erasable(ctx context.Context, events []inbox.ID) (noted []inbox.ID, objects []*candidate, err error) {
	rows, err := a.cfg.Pool.Query(ctx, findErasable, events)
	if err != nil {
		return nil, nil, fmt.Errorf("finding the objects of erased events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var event, body inbox.ID
		var name, kind, class, state *string
		var first, last inbox.ID
		var size, index *int64
		if err := rows.Scan(&event, &body, &name, &kind, &class, &first, &last, &state, &size, &index); err != nil {
			return nil, nil, fmt.Errorf("finding the objects of erased events: %w", err)
		}
		if !slices.Contains(noted, event) {
			noted = append(noted, event)
		}
		if name == nil {
			continue
		}
		if len(objects) == 0 || objects[len(objects)-1].name != *name {
			objects = append(objects, &candidate{object: object{
				name: *name, kind: Kind(*kind), class: *class, first: first, last: last, state: *state, size: *size, indexOffset: *index,
			}})
		}
		key := body
		if Kind(*kind) == Conflict {
			key = event
		}
		o := objects[len(objects)-1]
		o.keys = append(o.keys, key)
	}
	return noted, objects, rows.Err()
}

// eraseFrom writes an object again without the events. none is true if it has none of them. An object that is missing was
// written again by another process, or, if that was seen again, was deleted by somebody else.
func (a *Archive) eraseFrom(ctx context.Context, keys *seal.Keyring, o *candidate, noted []inbox.ID, again bool, out *Erased) (none bool, err error) {
	if o.state == "stored" {
		has, err := a.has(ctx, o, noted)
		switch {
		case err != nil && a.cfg.IsMissing(err):
			return again, nil
		case err != nil:
			return false, fmt.Errorf("object %s: %w", o.name, err)
		case !has:
			return true, nil
		}
	}
	return false, a.rewrite(ctx, o.name, func(lines []Line) (stay []Line, changed bool, err error) {
		for _, line := range lines {
			erased, unopened, err := line.erase(keys, noted)
			if err != nil {
				return nil, false, err
			}
			if erased {
				out.Lines++
				changed = true
			}
			if unopened {
				out.Unopened++
			}
			if !erased || len(line.Events) > 0 {
				stay = append(stay, line)
			}
		}
		return stay, changed, nil
	})
}

// has reports whether a line of the object names one of the events.
func (a *Archive) has(ctx context.Context, o *candidate, events []inbox.ID) (bool, error) {
	for _, key := range o.keys {
		lines, err := a.lines(ctx, &o.object, key)
		if err != nil {
			return false, err
		}
		for i := range lines {
			if slices.ContainsFunc(lines[i].Events, func(e Event) bool { return slices.Contains(events, e.ID) }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// erase takes events out of a line, and blanks their bytes if other events need the body.
func (l *Line) erase(keys *seal.Keyring, events []inbox.ID) (erased, unopened bool, err error) {
	var stay []Event
	gone := slices.Clone(l.Erased)
	for _, e := range l.Events {
		if slices.Contains(events, e.ID) {
			gone, erased = append(gone, e.Span), true
		} else {
			stay = append(stay, e)
		}
	}
	if !erased {
		return false, false, nil
	}
	l.Events, l.Erased = stay, gone
	if len(stay) == 0 || l.Kind == Conflict {
		l.Events = nil
		return true, false, nil
	}
	unopened, err = l.blank(keys)
	return true, unopened, err
}

// Blank puts spaces where the events in Erased were. If the key of the line is missing, Erased remembers the places.
func (l *Line) Blank(keys *seal.Keyring) error {
	_, err := l.blank(keys)
	return err
}

// blank puts spaces where the erased events were. unopened is true if the key of the line is missing: Erased remembers the places.
func (l *Line) blank(keys *seal.Keyring) (unopened bool, err error) {
	if len(l.Erased) == 0 {
		return false, nil
	}
	headers, body, err := l.open(keys)
	if err != nil {
		return true, nil //nolint:nilerr // what cannot be read cannot be blanked, and other events need it
	}
	body = bytes.Clone(body)
	for _, s := range l.Erased {
		if s.Offset < 0 || s.Length < 0 || s.Offset+s.Length > len(body) {
			return false, fmt.Errorf("%w: an event lies outside its body", ErrDamaged)
		}
		copy(body[s.Offset:], bytes.Repeat([]byte{' '}, s.Length))
	}
	if l.KeyID != nil {
		ring := keys.Ring()
		l.Headers, _ = ring.Seal(l.place("headers"), headers)
		body, l.KeyID = ring.Seal(l.place("body"), body)
	}
	l.Body, l.Erased = body, nil
	return false, nil
}
