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

// PostgreSQL looks up each id in the unique index of keys.
const findKey = `
SELECT event_id FROM inbox_event
WHERE source_id = $1 AND event_id = ANY ($2::text[])
ORDER BY event_id = $3 DESC
LIMIT 1`

// FindKey returns eventID if the source has recorded it, or else former, under which an earlier
// version may have recorded the same key. An empty former is ignored. FindKey returns
// [inbox.ErrNotFound] if neither is recorded.
func (o *Operations) FindKey(ctx context.Context, source int32, eventID, former string) (string, error) {
	ids := []string{pgtext.Clean(eventID, 1024)}
	if former != "" {
		ids = append(ids, pgtext.Clean(former, 1024))
	}
	var found string
	err := o.cfg.Pool.QueryRow(ctx, findKey, source, ids, ids[0]).Scan(&found)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", inbox.ErrNotFound
	case err != nil:
		return "", fmt.Errorf("finding a key: %s", row.ErrorText(err))
	}
	return found, nil
}
