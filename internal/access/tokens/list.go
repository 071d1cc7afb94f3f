package tokens

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// Filter restricts a list of tokens. A zero field does not restrict it.
type Filter struct {
	// Tenant restricts the list to the tokens of one tenant. Tokens for all tenants are then left
	// out.
	Tenant string
	// All includes the tokens that have expired or were revoked.
	All bool
	// Before is the last ID of the previous page. Zero starts at the newest token.
	Before inbox.ID
	// Limit is the page size. Zero means 50; the maximum is 1,000.
	Limit int
}

// Operators create tokens by hand, so there are few and a backward scan of the primary key
// suffices.
const listTokens = `
SELECT ` + tokenColumns + ` FROM access_token
WHERE ($1::text = '' OR tenant = $1) AND ($2::boolean OR revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3::timestamptz))
    AND ($4::uuid IS NULL OR id < $4)
ORDER BY id DESC LIMIT $5`

// List returns one page of tokens, newest first.
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
