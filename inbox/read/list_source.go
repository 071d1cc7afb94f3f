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

	// Move says to or from which database the source moves, or has moved. It is absent if it never did.
	Move *SourceMove `json:"move,omitempty"`
}

// SourceMove is a move of a source between two databases, as one of them knows it.
type SourceMove struct {
	// Leaves says that the source goes from this database to Other. Otherwise it comes from there.
	Leaves bool   `json:"leaves"`
	Other  string `json:"other"`

	// Step is copying, closed (this database refuses deliveries), open (this database takes them, and its ordered routes wait) or settled.
	Step string `json:"step"`

	// Since is when the step began.
	Since time.Time `json:"since"`
}

// Text describes the move in a few words.
func (m *SourceMove) Text() string {
	switch {
	case m == nil:
		return ""
	case m.Leaves && m.Step == "copying":
		return "moves to " + m.Other
	case m.Leaves:
		return "moved to " + m.Other
	case m.Step == "copying":
		return "moves here from " + m.Other
	case m.Step == "open":
		return "moved here from " + m.Other + ", whose effects its ordered routes wait for"
	}
	return "moved here from " + m.Other
}

// There are some hundred sources at most, and they are never deleted.
const listSources = `
SELECT s.id, s.name, s.provider, s.class, s.tenant, s.shadow, s.created_at, m.source_id IS NOT NULL, coalesce(m.direction = 'out', false),
    coalesce(m.other, ''), coalesce(m.state, ''), coalesce(m.changed_at, s.created_at)
FROM source s
LEFT JOIN source_move m ON m.source_id = s.id
WHERE $1::text = '' OR s.tenant = $1
ORDER BY s.name`

// Sources returns every source with which a server was ever started, ordered by name. If tenant is not empty, it returns
// only the sources of that tenant.
func (l *Lister) Sources(ctx context.Context, tenant string) ([]SourceRow, error) {
	rows, err := l.pool.Query(ctx, listSources, tenant)
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (r SourceRow, err error) {
		var m SourceMove
		moves := false
		err = from.Scan(&r.ID, &r.Name, &r.Provider, &r.Class, &r.Tenant, &r.Shadow, &r.CreatedAt, &moves, &m.Leaves, &m.Other, &m.Step, &m.Since)
		if moves {
			r.Move = &m
		}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing sources: %w", err)
	}
	return out, nil
}
