package read

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/oncegate/oncegate/inbox"
)

// ErrCursor is returned for a cursor that no page of the list with this filter gave.
var ErrCursor = errors.New("the cursor is not one of this list with this filter; start again without it")

// A cursor is a byte that says how it is made, a digest of the list and its filter, and the place of the last row.
const (
	cursorVersion = 1
	cursorHead    = 1 + 4
)

// listPlace is where a page of a list ends: the id of its last row, or the number of it.
type listPlace interface{ inbox.ID | int64 }

// listCursor makes and reads the cursors of one list with one filter.
type listCursor[P listPlace] struct {
	head [cursorHead]byte
}

// newListCursor ties cursors to a list and to what its rows are narrowed by. The filter is compared as JSON: what
// differs from page to page (the cursor itself, the size, a time that is counted from now) is left out of it by the
// caller.
func newListCursor[P listPlace](list string, filter any) (c listCursor[P]) {
	narrowed, err := json.Marshal(filter)
	if err != nil {
		panic("inbox: a filter is not JSON: " + err.Error()) // filters are structs of texts and ids
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(list))
	_, _ = sum.Write(narrowed)
	c.head[0] = cursorVersion
	binary.BigEndian.PutUint32(c.head[1:], sum.Sum32())
	return c
}

// text returns the cursor of the page after the place.
func (c listCursor[P]) text(at P) string {
	out := append([]byte{}, c.head[:]...)
	switch at := any(at).(type) {
	case inbox.ID:
		out = append(out, at[:]...)
	case int64:
		out = binary.BigEndian.AppendUint64(out, uint64(at))
	}
	return base64.RawURLEncoding.EncodeToString(out)
}

// parse reads a cursor; an empty one is the first page. It returns [ErrCursor] for one of another list.
func (c listCursor[P]) parse(text string) (at P, err error) {
	if text == "" {
		return at, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < cursorHead || [cursorHead]byte(raw[:cursorHead]) != c.head {
		return at, fmt.Errorf("%w", ErrCursor)
	}
	raw = raw[cursorHead:]
	switch into := any(&at).(type) {
	case *inbox.ID:
		if len(raw) != len(into) {
			return at, fmt.Errorf("%w", ErrCursor)
		}
		*into = inbox.ID(raw)
	case *int64:
		if len(raw) != 8 {
			return at, fmt.Errorf("%w", ErrCursor)
		}
		*into = int64(binary.BigEndian.Uint64(raw))
	}
	return at, nil
}
