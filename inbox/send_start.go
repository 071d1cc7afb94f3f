package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

type sendStart struct {
	effect, token ID
	rendered      []byte
	started       bool
	keyID         *int32
}

// StartSend commits, before the first byte leaves, what must be known if the
// attempt's end is never seen: the bytes that will be sent (nil if they are the
// body as received) and, for a target that cannot deduplicate, that sending
// began. It reports false if the claim is no longer the caller's: nothing may
// be sent then.
func (e *Effects) StartSend(ctx context.Context, claim *Claim, rendered []byte, started bool) (bool, error) {
	sealed, keyID := e.keys.Seal(renderedPlace(claim.Effect), rendered)
	ok, err := e.starts.do(ctx, sendStart{effect: claim.Effect, token: claim.Token, rendered: sealed, keyID: keyID, started: started})
	if err != nil {
		return false, fmt.Errorf("starting the send of effect %s: %w", claim.Effect, err)
	}
	return ok, nil
}

// What was rendered first stays: every attempt sends the same bytes.
const startSends = `
WITH held AS MATERIALIZED (
    SELECT e.id, a.rendered, a.started, a.key_id
    FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::boolean[], $5::int[]) AS a (id, token, rendered, started, key_id)
    JOIN effect e ON e.id = a.id AND e.lease_token = a.token AND e.lease_until > now()
    ORDER BY e.id
    FOR UPDATE OF e)
UPDATE effect e
SET rendered = coalesce(e.rendered, h.rendered),
    rendered_key_id = CASE WHEN e.rendered IS NULL THEN h.key_id ELSE e.rendered_key_id END,
    send_started_at = CASE WHEN h.started THEN now() ELSE e.send_started_at END
FROM held h
WHERE e.id = h.id
RETURNING e.lease_token`

func (e *Effects) startGroup(ctx context.Context, asks []sendStart) ([]bool, error) {
	ids, tokens := make([]ID, len(asks)), make([]ID, len(asks))
	rendered, started, keyIDs := make([][]byte, len(asks)), make([]bool, len(asks)), make([]*int32, len(asks))
	for i, a := range asks {
		ids[i], tokens[i], rendered[i], started[i], keyIDs[i] = a.effect, a.token, a.rendered, a.started, a.keyID
	}
	rows, err := e.pool.Query(ctx, startSends, ids, tokens, rendered, started, keyIDs)
	if err != nil {
		return nil, err
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil {
		return nil, err
	}
	mine := make(map[ID]bool, len(held))
	for _, token := range held {
		mine[token] = true
	}
	out := make([]bool, len(asks))
	for i, a := range asks {
		out[i] = mine[a.token]
	}
	return out, nil
}
