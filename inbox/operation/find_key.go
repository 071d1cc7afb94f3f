package operation

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// PostgreSQL looks up the id in the unique index of keys.
const findKey = `SELECT EXISTS (SELECT FROM inbox_event WHERE source_id = $1 AND event_id = $2)`

// FindKey reports whether the source has recorded an event with the id.
func (o *Store) FindKey(ctx context.Context, source int32, eventID string) (found bool, err error) {
	if err := o.cfg.Pool.QueryRow(ctx, findKey, source, pgtext.Clean(eventID, 1024)).Scan(&found); err != nil {
		return false, fmt.Errorf("finding a key: %s", row.ErrorText(err))
	}
	return found, nil
}
