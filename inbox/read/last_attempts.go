package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// LastAttempt is how the last attempt of an effect ended, without what the target said.
type LastAttempt struct {
	Effect     inbox.ID  `json:"effect"`
	FinishedAt time.Time `json:"finished_at"`
	Outcome    string    `json:"outcome"`
	// Reason is why it failed, and Code the target's own code, such as a status.
	Reason string `json:"reason,omitempty"`
	Code   string `json:"code,omitempty"`
	// Node is the process that made it.
	Node string `json:"node"`
}

// One range of the primary key for each effect.
const lastAttempts = `
SELECT a.effect_id, a.finished_at, a.outcome, coalesce(a.reason, ''), coalesce(a.code, ''), a.node
FROM unnest($1::uuid[]) AS e (id)
CROSS JOIN LATERAL (SELECT * FROM effect_attempt a WHERE a.effect_id = e.id ORDER BY a.version DESC, a.attempt DESC LIMIT 1) a
ORDER BY a.finished_at DESC`

// LastAttempts returns the last attempt of each of the effects that had one, newest first.
func (l *Lister) LastAttempts(ctx context.Context, effects []inbox.ID) ([]LastAttempt, error) {
	rows, err := l.pool.Query(ctx, lastAttempts, effects)
	if err != nil {
		return nil, fmt.Errorf("reading the last attempts: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LastAttempt])
	if err != nil {
		return nil, fmt.Errorf("reading the last attempts: %w", err)
	}
	return out, nil
}
