package logins

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// Filter restricts a list of logins. A zero field does not restrict it.
type Filter struct {
	// Tenant restricts the list to the logins of one tenant. Logins for all tenants are then left
	// out.
	Tenant string
	// All includes the logins that have ended or expired. Prune deletes a login a day after its
	// end.
	All bool
	// Before is the last ID of the previous page. Zero starts at the newest login.
	Before inbox.ID
	// Limit is the page size. Zero means 50; the maximum is 1,000.
	Limit int
}

// Prune keeps the table small: it contains the logins of about two days.
const listLogins = selectLogins + `
WHERE ($1::text = '' OR l.tenant = $1)
    AND ($3::boolean OR l.ended_at IS NULL AND l.expires_at > $2::timestamptz AND l.used_at > $4::timestamptz
        AND (t.id IS NULL OR t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $2::timestamptz)))
    AND ($5::uuid IS NULL OR l.id < $5)
ORDER BY l.id DESC LIMIT $6`

// List returns one page of logins, newest first.
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
