package inbox

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox/internal/place"
)

// The fence is the lease: an attempt that has lost its claim stores nothing.
const keepFetched = `
UPDATE effect
SET fetched = $3, fetched_key_id = $4
WHERE id = $1 AND lease_token = $2 AND lease_until > now()`

// KeepFetched commits the answer of a route's fetch, before the request is made of it. It replaces the answer of an
// earlier attempt. It reports false if the claim is no longer the caller's: nothing may be sent then.
func (e *Effects) KeepFetched(ctx context.Context, claim *Claim, answer []byte) (bool, error) {
	sealed, keyID := e.keys.Seal(place.Fetched(claim.Effect), answer)
	tag, err := e.pool.Exec(ctx, keepFetched, claim.Effect, claim.Token, sealed, keyID)
	if err != nil {
		return false, fmt.Errorf("storing what was fetched for effect %s: %w", claim.Effect, err)
	}
	return tag.RowsAffected() == 1, nil
}
