package operation

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// The event is gone only if the window is longer than its key is kept; the call is a new one then. The note may be one from before
// there was a keyring.
const readRecentCall = `
SELECT e.id, e.event_id
FROM recent_call r
JOIN inbox_event e ON e.source_id = r.source_id AND e.event_id = r.event_id
WHERE r.source_id = $1 AND r.call_hash IN ($2, $3) AND r.expires_at >= now()
ORDER BY octet_length(r.call_hash) DESC
LIMIT 1`

// RecentCall finds the call with the hash that was recorded within its window, and its whole key. It returns
// [inbox.ErrNotFound] if there is none. It only spares the gate a call that will be refused: the gate's constraint decides.
func (o *Store) RecentCall(ctx context.Context, source int32, hash [sha256.Size]byte) (event inbox.ID, key string, err error) {
	err = o.cfg.Pool.QueryRow(ctx, readRecentCall, source, o.cfg.Installation.StoredHash(hash[:]), o.cfg.Installation.FormerHash(hash[:])).Scan(&event, &key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return inbox.ID{}, "", inbox.ErrNotFound
	case err != nil:
		return inbox.ID{}, "", fmt.Errorf("reading which call came first: %s", row.ErrorText(err))
	}
	return event, key, nil
}
