package read

import (
	"context"
	"fmt"
)

const streamHasTenant = `
SELECT EXISTS (
    SELECT
    FROM stream st
    JOIN effect x ON x.route_id = st.route_id AND x.sequence_key_hash = st.key_hash
    JOIN inbox_event v ON v.id = x.event_id
    JOIN source s ON s.id = v.source_id
    WHERE st.id = $1 AND coalesce(v.tenant, s.tenant) = $2)`

// StreamHasTenant reports whether a stream has an effect of an event of the tenant.
func (l *Lister) StreamHasTenant(ctx context.Context, stream int64, tenant string) (has bool, err error) {
	if err := l.pool.QueryRow(ctx, streamHasTenant, stream, tenant).Scan(&has); err != nil {
		return false, fmt.Errorf("reading whose stream %d is: %w", stream, err)
	}
	return has, nil
}
