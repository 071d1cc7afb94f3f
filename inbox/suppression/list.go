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
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Filter narrows a list of entries; a zero field does not.
type Filter struct {
	Reason Reason
	// Target takes the entries of this target alone, without those for every target.
	Target string
	// Since is the earliest creation.
	Since time.Time
	// Cursor is the Next of the page before this one; empty is the first page.
	Cursor string
	// Limit is the size of the page; 0 is 50, and 1,000 is the most.
	Limit int
}

// A page by primary key. Expired entries are left out, because they suppress nothing, and prune removes them.
const selectEntries = `
SELECT id, address, key_id, digest, target, reason, source_event, created_at, expires_at
FROM suppression
WHERE (expires_at IS NULL OR expires_at > now())`

// The end of a window: the last of some entries, including expired ones.
const edgeOfEntries = ` ORDER BY id DESC OFFSET ? - 1 LIMIT 1`

// List returns one page of the entries, newest first. It returns [read.ErrCursor] for a cursor of another list or
// filter.
func (s *Store) List(ctx context.Context, f Filter) (read.Page[Row], error) {
	page, err := read.NextPage(ctx, read.PageQuery[Row, inbox.ID]{
		List: "suppressions", Filter: []string{string(f.Reason), f.Target}, Cursor: f.Cursor, Limit: f.Limit,
		Place: func(r *Row) inbox.ID { return r.ID },
		Read: func(ctx context.Context, from, to inbox.ID, limit int) ([]Row, error) {
			return s.list(ctx, f, from, to, limit)
		},
		Edge: func(ctx context.Context, from inbox.ID, rows int) (at inbox.ID, searched time.Time, err error) {
			var p row.Predicates
			p.AddIf(!from.IsZero(), `id < ?`, from)
			var statement row.Statement
			statement.Add(`SELECT id FROM suppression`).Where(p).Add(edgeOfEntries, rows)
			_, err = row.QueryOne(ctx, s.cfg.Pool, &statement, &at)
			return at, at.Time(), err
		},
		Budget: s.cfg.ListBudget,
	})
	if err != nil {
		return page, fmt.Errorf("listing suppressed addresses: %w", err)
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, f Filter, from, to inbox.ID, limit int) (out []Row, err error) {
	var p row.Predicates
	p.AddIf(f.Reason != "", `reason = ?`, string(f.Reason))
	p.AddIf(f.Target != "", `target = ?`, f.Target)
	p.AddIf(!f.Since.IsZero(), `created_at >= ?`, row.Micros(f.Since))
	p.AddIf(!from.IsZero(), `id < ?`, from)
	p.AddIf(!to.IsZero(), `id >= ?`, to)
	var statement row.Statement
	sql, args := statement.Add(selectEntries).And(p).Add(` ORDER BY id DESC LIMIT ?`, limit).SQL()
	var stored storedRow
	err = row.Query(ctx, s.cfg.Pool, sql, args, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, stored.into(), func() error {
			out = append(out, *s.shown(&stored))
			return nil
		})
		return err
	})
	return out, err
}

// shown returns a row with its address opened. An address that cannot be opened is left empty.
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
