package inbox

import (
	"context"
	"fmt"
	"time"
)

// Postpone puts an effect off that this process can do nothing for, without
// spending an attempt.
func (e *Effects) Postpone(ctx context.Context, effect ID, by time.Duration) error {
	if _, err := e.postpones.do(ctx, postponement{effect: effect, by: by}); err != nil {
		return fmt.Errorf("postponing effect %s: %w", effect, err)
	}
	return nil
}

// A row that somebody else has locked is being worked on.
const postponeEffects = `
WITH due AS MATERIALIZED (
    SELECT e.id, a.by
    FROM unnest($1::uuid[], $2::bigint[]) AS a (id, by)
    JOIN effect e ON e.id = a.id
    WHERE e.state IN ('pending', 'retry')
    ORDER BY e.id
    FOR UPDATE OF e SKIP LOCKED)
UPDATE effect e SET next_at = now() + d.by * interval '1 microsecond'
FROM due d
WHERE e.id = d.id`

type postponement struct {
	effect ID
	by     time.Duration
}

func (e *Effects) postponeGroup(ctx context.Context, asks []postponement) ([]struct{}, error) {
	ids, waits := make([]ID, len(asks)), make([]int64, len(asks))
	for i, a := range asks {
		ids[i], waits[i] = a.effect, a.by.Microseconds()
	}
	_, err := e.pool.Exec(ctx, postponeEffects, ids, waits)
	return make([]struct{}, len(asks)), err
}

// MarkUnfinished notes that a run of a waiting effect did not end, so that the
// next one commits its claim before it acts.
func (e *Effects) MarkUnfinished(ctx context.Context, effect ID) error {
	if _, err := e.pool.Exec(ctx, markUnfinished, effect); err != nil {
		return fmt.Errorf("marking effect %s: %w", effect, err)
	}
	return nil
}

const markUnfinished = `
UPDATE effect SET unfinished = true WHERE id = $1 AND state IN ('pending', 'retry')`
