package read

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The statement reads the newest events by their key, and no index has their types. A tenant's are looked for among them, so that
// a tenant with few events does not make the statement read the table.
const recentTypes = `
SELECT DISTINCT v.type
FROM (SELECT v.type, v.tenant, v.source_id FROM inbox_event v ORDER BY v.id DESC LIMIT 2000) v
WHERE v.type <> '' AND ($1 = '' OR coalesce(v.tenant, (SELECT s.tenant FROM source s WHERE s.id = v.source_id)) = $1)
ORDER BY 1`

// RecentTypes returns the types of the newest 2,000 events, sorted.
func (l *Lister) RecentTypes(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, recentTypes, l.tenant)
	if err != nil {
		return nil, fmt.Errorf("reading the types of recent events: %w", err)
	}
	types, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the types of recent events: %w", err)
	}
	return types, nil
}
