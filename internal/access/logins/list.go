package logins

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// Filter narrows a list of logins; a zero field does not.
type Filter struct {
	// Tenant is the only tenant whose logins are listed. Those of everybody are left out then.
	Tenant string
	// All adds the logins that are over. Prune removes a login a day after its end.
	All bool
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before inbox.ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// Prune keeps the table small: it holds the logins of two days.
const listLogins = selectLogins + `
WHERE ($1::text = '' OR l.tenant = $1)
    AND ($3::boolean OR l.ended_at IS NULL AND l.expires_at > $2::timestamptz AND l.used_at > $4::timestamptz
        AND (t.id IS NULL OR t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2::timestamptz)))
    AND ($5::uuid IS NULL OR l.id < $5)
ORDER BY l.id DESC LIMIT $6`

// List gives one page of logins, newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]*Login, error) {
	limit := min(f.Limit, 1000)
	if limit <= 0 {
		limit = 50
	}
	now := s.now()
	rows, err := s.cfg.Pool.Query(ctx, listLogins, f.Tenant, now, f.All, now.Add(-s.cfg.Idle), f.Before, limit)
	if err != nil {
		return nil, fmt.Errorf("listing logins: %w", err)
	}
	out, err := pgx.CollectRows(rows, s.scan)
	if err != nil {
		return nil, fmt.Errorf("listing logins: %w", err)
	}
	return out, nil
}
