package tokens

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// Filter narrows a list of tokens; a zero field does not.
type Filter struct {
	// Tenant is the only tenant whose tokens are listed. Those of everybody are left out then.
	Tenant string
	// All adds the tokens that have expired or were revoked.
	All bool
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before inbox.ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// People create tokens, so there are few: the key's index is read backwards.
const listTokens = `
SELECT ` + tokenColumns + ` FROM access_token
WHERE ($1::text = '' OR tenant = $1) AND ($2::boolean OR revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3::timestamptz))
    AND ($4::uuid IS NULL OR id < $4)
ORDER BY id DESC LIMIT $5`

// List gives one page of tokens, newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]*Token, error) {
	rows, err := s.pool.Query(ctx, listTokens, f.Tenant, f.All, s.now(), f.Before, pageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	out, err := pgx.CollectRows(rows, s.scan)
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	return out, nil
}

func pageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, 1000)
}
