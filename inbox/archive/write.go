package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/sleep"
)

// Target says what an object will contain.
type Target struct {
	Kind  Kind
	Class string

	// First and Last are the least and the greatest key that its lines may have. Both are of one day.
	First, Last inbox.ID
}

// Takes reports whether bodies of a class are archived.
func (a *Archive) Takes(class string) bool {
	return a.Configured() && (len(a.cfg.Classes) == 0 || slices.Contains(a.cfg.Classes, class))
}

// kindFolders are the folders of the kinds. Stored: never change.
var kindFolders = map[Kind]string{Body: "bodies", Conflict: "conflicts"}

// The name follows from what the object will contain, so that a pass that was killed writes the same object again. The number of
// the generation is in the name from the second one on.
const beginObject = `
WITH past AS (
    SELECT coalesce(max(o.generation), 0) + 1 AS generation
    FROM archive_object o
    WHERE o.kind = $1 AND o.class = $2 AND o.day = $3 AND o.first_key = $4)
INSERT INTO archive_object (name, kind, class, day, first_key, last_key, generation, state)
SELECT $6 || CASE WHEN p.generation = 1 THEN '' ELSE '.' || p.generation END || '.jsonl.zst', $1, $2, $3, $4, $5, p.generation, 'writing'
FROM past p
RETURNING name`

// begin commits the row of an object that is about to be written, and returns the name.
func (a *Archive) begin(ctx context.Context, t Target) (name string, err error) {
	day := dayOf(t.First)
	prefix := fmt.Sprintf("%s/%s/%s/%s", kindFolders[t.Kind], t.Class, day.Format(time.DateOnly), t.First)
	err = a.cfg.Pool.QueryRow(ctx, beginObject, t.Kind, t.Class, day, t.First, t.Last, prefix).Scan(&name)
	return name, err
}

func dayOf(id inbox.ID) time.Time { return id.Time().Truncate(24 * time.Hour) }

// errTaken means that the row of an object that was begun is gone: an erasure or a cleanup took it for a leftover.
var errTaken = errors.New("the row of the object is gone")

const lockObject = `SELECT FROM archive_object WHERE name = $1 AND state = 'writing' FOR UPDATE`

// Write writes one object in tx, which the caller commits. It calls read after the row of the object is committed and locked, so
// that whatever was erased before is not in the lines, and an erasure that begins later waits for tx. It returns how many bytes the
// object has; none if there are no lines. An error of the store is an [UnavailableError].
func (a *Archive) Write(ctx context.Context, tx pgx.Tx, t Target, read func(ctx context.Context) ([]Line, error)) (Written, error) {
	if a.cfg.Store == nil {
		return Written{}, ErrUnconfigured
	}
	var name string
	for try := 1; ; try++ {
		var err error
		if name, err = a.begin(ctx, t); err != nil {
			return Written{}, fmt.Errorf("beginning an object: %w", err)
		}
		if err = a.lock(ctx, tx, name); err == nil {
			break
		}
		if !errors.Is(err, errTaken) || try == 3 {
			return Written{}, fmt.Errorf("locking object %s: %w", name, err)
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return Written{}, err
		}
	}
	lines, err := read(ctx)
	if err != nil {
		return Written{}, err
	}
	return a.put(ctx, tx, name, lines)
}

func (a *Archive) lock(ctx context.Context, tx pgx.Tx, name string) error {
	tag, err := tx.Exec(ctx, lockObject, name)
	if err == nil && tag.RowsAffected() == 0 {
		err = errTaken
	}
	return err
}

// Written is an object that was written.
type Written struct {
	Name  string
	Lines int
	// Bytes is the size of the object.
	Bytes int64
}

const (
	// first_key stays, also if its line is gone, because the names of further generations follow from it.
	storeObject = `
UPDATE archive_object
SET state = 'stored', last_key = $2, lines = $3, size = $4, index_offset = $5, key_ids = $6, key_lines = $7, written_at = now()
WHERE name = $1`

	forgetObject = `DELETE FROM archive_object WHERE name = $1`
)

// put writes the object of a row that tx has locked. Without lines it deletes the row.
func (a *Archive) put(ctx context.Context, tx pgx.Tx, name string, lines []Line) (Written, error) {
	if len(lines) == 0 {
		_, err := tx.Exec(ctx, forgetObject, name)
		return Written{}, err
	}
	sortLines(lines)
	content, index, err := a.codec.encode(lines)
	if err != nil {
		return Written{}, fmt.Errorf("encoding object %s: %w", name, err)
	}
	a.cache.forget(name)
	if err := a.cfg.Store.Put(ctx, name, content); err != nil {
		return Written{}, &UnavailableError{err}
	}
	ids, counts := keysOf(lines)
	_, err = tx.Exec(ctx, storeObject, name, lines[len(lines)-1].key(), len(lines), len(content), index, ids, counts)
	if err != nil {
		return Written{}, fmt.Errorf("storing the row of object %s: %w", name, err)
	}
	return Written{Name: name, Lines: len(lines), Bytes: int64(len(content))}, nil
}

// keysOf counts the lines by sealing key, 0 for plain ones.
func keysOf(lines []Line) (ids, counts []int32) {
	for i := range lines {
		var id int32
		if lines[i].KeyID != nil {
			id = *lines[i].KeyID
		}
		at := slices.Index(ids, id)
		if at < 0 {
			ids, counts, at = append(ids, id), append(counts, 0), len(ids)
		}
		counts[at]++
	}
	return ids, counts
}
