package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// SourceRow is the last registration of a source.
type SourceRow struct {
	ID       int32  `json:"-"`
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Class    string `json:"class"`
	Tenant   string `json:"tenant,omitempty"`
	// Shadow says that the source is in shadow mode: its events are recorded, and none of their effects is carried out.
	Shadow    bool      `json:"shadow,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// There are some hundred sources at most, and they are never deleted.
const listSources = `
SELECT id, name, provider, class, tenant, shadow, created_at
FROM source
WHERE $1::text = '' OR tenant = $1
ORDER BY name`

// Sources returns every source with which a server was ever started, ordered by name. If tenant is not empty, it returns
// only the sources of that tenant.
func (l *Lister) Sources(ctx context.Context, tenant string) ([]SourceRow, error) {
	rows, err := l.pool.Query(ctx, listSources, tenant)
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SourceRow])
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	return out, nil
}
