package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// The statement finds an operation by its key or by its id, and only if the key begins
// with the credential: the id of another credential's operation is not found.
const findOperation = `
SELECT id FROM inbox_event
WHERE source_id = $1 AND (event_id = $2 OR id = $3) AND starts_with(event_id, $4)
ORDER BY event_id = $2 DESC
LIMIT 1`

// Find returns the event of a credential's operation: by its whole key, which is tried
// first, or by our id. It returns [inbox.ErrNotFound] if there is none, or if it belongs to
// another credential.
func (o *Store) Find(ctx context.Context, source int32, credential, ref string) (inbox.ID, error) {
	id, err := inbox.ParseID(ref)
	if err != nil {
		id = inbox.ID{}
	}
	var found inbox.ID
	err = o.cfg.Pool.QueryRow(ctx, findOperation, source, pgtext.Clean(ref, 1024), id, credential+":").Scan(&found)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return inbox.ID{}, inbox.ErrNotFound
	case err != nil:
		return inbox.ID{}, fmt.Errorf("finding an operation: %s", row.ErrorText(err))
	}
	return found, nil
}
