package archive

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// object is the row of an object.
type object struct {
	name              string
	kind              Kind
	class             string
	first, last       inbox.ID
	state             string
	size, indexOffset int64
}

const objectColumns = `a.name, a.kind, a.class, a.first_key, a.last_key, a.state, a.size, a.index_offset`

func scanObject(row pgx.CollectableRow) (o object, err error) {
	err = row.Scan(&o.name, &o.kind, &o.class, &o.first, &o.last, &o.state, &o.size, &o.indexOffset)
	return o, err
}

// The objects of a day that may have a line of the key, the newest first.
const findObjects = `
SELECT ` + objectColumns + `
FROM archive_object a
WHERE a.kind = $1 AND a.day = $2 AND a.first_key <= $3 AND a.last_key >= $3 AND a.state = 'stored'
ORDER BY a.written_at DESC`

// body returns the line of a body. It returns [ErrNotArchived] if no object has it.
func (a *Archive) body(ctx context.Context, id inbox.ID) (*Line, error) {
	// Between the read of the row and the read of the object, an erasure may have written the object again under another name.
	for try := 1; ; try++ {
		rows, err := a.cfg.Pool.Query(ctx, findObjects, Body, dayOf(id), id)
		if err != nil {
			return nil, fmt.Errorf("finding the object of a body: %w", err)
		}
		found, err := pgx.CollectRows(rows, scanObject)
		if err != nil {
			return nil, fmt.Errorf("finding the object of a body: %w", err)
		}
		missing := false
		for i := range found {
			lines, err := a.lines(ctx, &found[i], id)
			if err != nil && a.cfg.IsMissing(err) {
				missing = true
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("object %s: %w", found[i].name, err)
			}
			if len(lines) > 0 {
				return &lines[0], nil
			}
		}
		switch {
		case !missing:
			return nil, ErrNotArchived
		case try == 3:
			return nil, fmt.Errorf("%w: an object of %s is not in the archive any more", ErrDamaged, dayOf(id).Format("2006-01-02"))
		}
	}
}

// lines returns the lines of one key of an object. It reads the index and the frames that may have them.
func (a *Archive) lines(ctx context.Context, o *object, key inbox.ID) ([]Line, error) {
	index, err := a.index(ctx, o)
	if err != nil {
		return nil, err
	}
	var out []Line
	for _, f := range index.Frames {
		if bytes.Compare(key[:], f.First[:]) < 0 || bytes.Compare(key[:], f.Last[:]) > 0 {
			continue
		}
		lines, err := a.frame(ctx, o, f)
		if err != nil {
			return nil, err
		}
		for i := range lines {
			if lines[i].key() == key {
				out = append(out, lines[i])
			}
		}
	}
	return out, nil
}

func (a *Archive) index(ctx context.Context, o *object) (*Index, error) {
	at := cacheKey{o.name, o.indexOffset}
	if got, ok := a.cache.get(at); ok {
		return got.(*Index), nil
	}
	stored, err := a.read(ctx, o.name, o.indexOffset, o.size-o.indexOffset)
	if err != nil {
		return nil, err
	}
	index, err := decodeIndex(stored)
	if err == nil {
		a.cache.put(at, int64(len(stored)), index)
	}
	return index, err
}

func (a *Archive) frame(ctx context.Context, o *object, f Frame) ([]Line, error) {
	at := cacheKey{o.name, f.Offset}
	if got, ok := a.cache.get(at); ok {
		return got.([]Line), nil
	}
	stored, err := a.read(ctx, o.name, f.Offset, f.Size)
	if err != nil {
		return nil, err
	}
	lines, err := a.codec.decode(stored)
	if err == nil {
		a.cache.put(at, contentSize(lines), lines)
	}
	return lines, err
}

func contentSize(lines []Line) (sum int64) {
	for i := range lines {
		sum += int64(len(lines[i].Headers) + len(lines[i].Body))
	}
	return sum
}
