package suppression

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Filter narrows a list of entries; a zero field does not.
type Filter struct {
	Reason Reason
	// Target takes the entries of this target alone, without those for every target.
	Target string
	// Since is the earliest creation.
	Since time.Time
	// Before is the last ID of the page before this one; zero starts at the newest.
	Before inbox.ID
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// A page by primary key. Expired entries are left out: they hold for nothing, and prune removes them.
const listEntries = `
SELECT id, address, key_id, digest, target, reason, source_event, created_at, expires_at
FROM suppression
WHERE ($1::text = '' OR reason = $1)
  AND ($2::text = '' OR target = $2)
  AND created_at >= $3
  AND ($4::uuid IS NULL OR id < $4)
  AND (expires_at IS NULL OR expires_at > now())
ORDER BY id DESC
LIMIT $5`

// List gives one page of the entries, newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]Row, error) {
	var before *inbox.ID
	if !f.Before.IsZero() {
		before = &f.Before
	}
	rows, err := s.cfg.Pool.Query(ctx, listEntries, f.Reason, f.Target, f.Since, before, row.PageSize(f.Limit))
	if err != nil {
		return nil, fmt.Errorf("listing suppressed addresses: %w", err)
	}
	var stored storedRow
	var out []Row
	_, err = pgx.ForEachRow(rows, stored.into(), func() error {
		out = append(out, *s.shown(&stored))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing suppressed addresses: %w", err)
	}
	return out, nil
}

// shown opens the address of a row. One that cannot be opened is left out.
func (s *Store) shown(r *storedRow) *Row {
	out := &Row{
		ID: r.id, Digest: hex.EncodeToString(r.digest[:6]), Target: r.target, Reason: r.reason, Event: r.event, CreatedAt: r.created, ExpiresAt: r.expires,
	}
	if r.address == nil {
		return out
	}
	plain, err := s.cfg.Keyring.Open(place.Suppressed(r.id), r.keyID, r.address)
	if lost, ok := errors.AsType[*seal.LostError](err); ok {
		out.MissingKey = lost.Key
	}
	out.Address = string(plain)
	return out
}
