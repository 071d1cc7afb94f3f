package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// RecentCall says how the gate notes a call of an operation, so that its repetition under another key is
// recognised. The gate writes the note in the transaction that records the call: there is none of a call that was
// not recorded.
type RecentCall struct {
	// Hash is [RecentCallHash] of the call.
	Hash [sha256.Size]byte

	// Within is how long another call with the hash is suspected to be the same.
	Within time.Duration

	// Refuse has the gate refuse the call with [ErrSuspectedRepeat] if another one with its hash was
	// recorded within its window. Otherwise the gate records it, and marks its event.
	Refuse bool
}

// ErrSuspectedRepeat means that another call with the same arguments was recorded a moment ago under another key.
// Nothing was recorded. [Operations.RecentCall] says which call that is.
var ErrSuspectedRepeat = errors.New("the same arguments came a moment ago under another key")

// RecentCallHash is the same for two calls of one credential that ask one operation for the same.
// intent is the hash of the canonical payload.
func RecentCallHash(credential, operation string, intent []byte) [sha256.Size]byte {
	var text []byte
	for _, part := range [][]byte{[]byte(credential), []byte(operation), intent} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}

// The event is gone only if the window is longer than its key is kept; the call is a new one then.
const readRecentCall = `
SELECT e.id, e.event_id
FROM recent_call r
JOIN inbox_event e ON e.source_id = r.source_id AND e.event_id = r.event_id
WHERE r.source_id = $1 AND r.call_hash = $2 AND r.expires_at >= now()`

// RecentCall finds the call with the hash that was recorded within its window, and its whole key. It returns
// [ErrNotFound] if there is none. It only spares the gate a call that will be refused: the gate's constraint decides.
func (o *Operations) RecentCall(ctx context.Context, source int32, hash [sha256.Size]byte) (event ID, key string, err error) {
	err = o.cfg.Pool.QueryRow(ctx, readRecentCall, source, hash[:]).Scan(&event, &key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ID{}, "", ErrNotFound
	case err != nil:
		return ID{}, "", fmt.Errorf("reading which call came first: %s", row.ErrorText(err))
	}
	return event, key, nil
}
