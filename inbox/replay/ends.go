package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// A run stores queued when it has taken every item. Whether the replay is done depends on its effects, so it is read from
// them. [Store.Settle] stores done once all of them have ended, because they may be replayed again or pruned later.
const (
	// fromEffects are the effects e that a replay has restarted or created, by the outcomes o of its items i.
	fromEffects = `
    FROM replay_outcome o
    JOIN replay_item i ON i.replay_id = o.replay_id AND i.position = o.position
    JOIN effect e ON e.id = coalesce(o.made_id, i.effect_id)`

	// hasEnded says of a replay that is stored as queued that no effect of it is open. The items taken last are the most likely to be
	// open, so the search begins there and mostly ends at the first row.
	hasEnded = `(replay.state = 'queued' AND (SELECT true` + fromEffects + `
    WHERE o.replay_id = replay.id AND o.outcome IN ('replayed', 'created') AND e.state IN ('pending', 'claimed', 'retry', 'held')
    ORDER BY o.replay_id DESC, o.position DESC
    LIMIT 1) IS NULL)`

	// presentState is the state of a replay now.
	presentState = `CASE WHEN ` + hasEnded + ` THEN 'done' ELSE replay.state END`

	// lastEnd is when the last effect of a replay ended. Effects that are done have the time; of the others the last attempt has it.
	lastEnd = `coalesce((SELECT max(greatest(o.acted_at, e.finished_at, t.finished_at))
    FROM replay_outcome o
    JOIN replay_item i ON i.replay_id = o.replay_id AND i.position = o.position
    LEFT JOIN effect e ON e.id = coalesce(o.made_id, i.effect_id) AND o.outcome IN ('replayed', 'created')
    LEFT JOIN LATERAL (
        SELECT a.finished_at FROM effect_attempt a WHERE a.effect_id = e.id AND a.version = e.version ORDER BY a.attempt DESC LIMIT 1) t ON true
    WHERE o.replay_id = replay.id), replay.started_at)`
)

// A replay of many effects, of which one waits for days, is searched more and more rarely, because the search may read every item.
const settleReplays = `
WITH due AS MATERIALIZED (
    SELECT replay.id, ` + hasEnded + ` AS ended FROM replay WHERE replay.state = 'queued' AND replay.next_at <= now())
UPDATE replay
SET state = CASE WHEN d.ended THEN 'done' ELSE replay.state END,
    finished_at = CASE WHEN d.ended THEN ` + lastEnd + ` END,
    next_at = now() + greatest(interval '1 second', (now() - replay.started_at) / 20)
FROM due d
WHERE replay.id = d.id AND replay.state = 'queued'`

// Settle stores that the replays are done whose effects have all ended. What [Store.Status] and [Store.List] return does not
// depend on it. It looks at each replay after a twentieth of its age, but at most once a second.
func (r *Store) Settle(ctx context.Context) error {
	if _, err := r.pool.Exec(ctx, settleReplays); err != nil {
		return fmt.Errorf("settling replays: %w", err)
	}
	return nil
}

// Effects counts the effects that a replay has restarted or created, by how they stand now.
type Effects struct {
	// Open effects have not ended: they are pending, held, under way, or wait for another attempt.
	Open int `json:"open"`

	// Done effects happened. Dead effects did not and will not by themselves. Indeterminate effects may have happened.
	Done          int `json:"done"`
	Dead          int `json:"dead"`
	Indeterminate int `json:"indeterminate"`

	// Other effects were skipped or superseded, or are duplicates.
	Other int `json:"other,omitempty"`

	// Paused are the open effects that wait until an operator resumes their route or their target. Failing are those that wait
	// because their target fails, so that no attempt is made.
	Paused  int `json:"paused,omitempty"`
	Failing int `json:"failing,omitempty"`

	// States counts all of them by state.
	States map[string]int `json:"states"`
}

// ByState returns the counts by state. It returns none if there are no effects yet.
func (e *Effects) ByState() map[string]int {
	if e == nil {
		return nil
	}
	return e.States
}

func (e *Effects) add(state inbox.EffectState, paused, failing bool, n int) {
	if e.States == nil {
		e.States = map[string]int{}
	}
	e.States[string(state)] += n
	switch state {
	case inbox.EffectPending, inbox.EffectClaimed, inbox.EffectRetry, inbox.EffectHeld:
		e.Open += n
		if paused {
			e.Paused += n
		}
		if failing {
			e.Failing += n
		}
	case inbox.EffectDone:
		e.Done += n
	case inbox.EffectDead:
		e.Dead += n
	case inbox.EffectIndeterminate:
		e.Indeterminate += n
	case inbox.EffectSuperseded, inbox.EffectSkipped, inbox.EffectDuplicate:
		e.Other += n
	}
}

// Waits says in one line what open effects wait for, if they wait for an operator or for their target. It is empty otherwise.
func (e *Effects) Waits() string {
	var parts []string
	if e.Paused > 0 {
		parts = append(parts, fmt.Sprintf("%d until their route or target is resumed", e.Paused))
	}
	if e.Failing > 0 {
		parts = append(parts, fmt.Sprintf("%d until their target, which fails, is tried again", e.Failing))
	}
	return strings.Join(parts, ", ")
}

const countEffects = `
SELECT o.replay_id, e.state, coalesce(e.reason = 'paused', false), coalesce(e.reason = 'target_open', false), count(*)` + fromEffects + `
WHERE o.replay_id = ANY ($1::uuid[]) AND o.outcome IN ('replayed', 'created')
GROUP BY 1, 2, 3, 4`

// Effects counts the effects of replays. A replay that has not acted on any effect is not in the result.
func (r *Store) Effects(ctx context.Context, ids ...inbox.ID) (map[inbox.ID]*Effects, error) {
	out := map[inbox.ID]*Effects{}
	if len(ids) == 0 {
		return out, nil
	}
	var (
		id              inbox.ID
		state           inbox.EffectState
		paused, failing bool
		n               int
	)
	rows, err := r.pool.Query(ctx, countEffects, ids)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &state, &paused, &failing, &n}, func() error {
			if out[id] == nil {
				out[id] = &Effects{}
			}
			out[id].add(state, paused, failing, n)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("counting the effects of replays: %w", err)
	}
	return out, nil
}

// A run takes no item beyond one whose route or target is paused: see [Store.waitTx].
const readPausedNext = `
SELECT CASE WHEN p.route_id IS NULL THEN 'target ' || r.target ELSE 'route ' || s.name || '/' || r.name END
FROM (
    SELECT i.effect_id, i.route_id FROM replay_item i
    WHERE i.replay_id = $1 AND i.position > $2 AND coalesce(i.left_out, '') = ''
    ORDER BY i.position
    LIMIT 1) i
LEFT JOIN effect e ON e.id = i.effect_id
JOIN route r ON r.id = coalesce(e.route_id, i.route_id)
JOIN source s ON s.id = r.source_id
JOIN pause p ON p.route_id = r.id OR p.target = r.target
LIMIT 1`

// PausedAt names the paused route or target that the next item of a running replay waits for, as in "route shop/ledger". It is
// empty if the replay waits for none.
func (r *Store) PausedAt(ctx context.Context, replay *Replay) (string, error) {
	if replay.State != Running {
		return "", nil
	}
	var what string
	err := r.pool.QueryRow(ctx, readPausedNext, replay.ID, replay.position).Scan(&what)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("reading what replay %s waits for: %w", replay.ID, err)
	}
	return what, nil
}
