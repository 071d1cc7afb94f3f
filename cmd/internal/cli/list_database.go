package cli

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/migrations"
)

// read does something with what the database holds.
func (s *shell) read(cmd *cobra.Command, do func(context.Context, *inbox.Lister) error) error {
	return s.withPool(cmd.Context(), fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		return do(cmd.Context(), inbox.NewLister(pool).WithKeyring(keys))
	})
}

// lister reads from pool, also what is sealed.
func (s *shell) lister(pool *pgxpool.Pool) (*inbox.Lister, error) {
	keys, err := s.keyring()
	if err != nil {
		return nil, err
	}
	return inbox.NewLister(pool).WithKeyring(keys), nil
}

// listFromDatabase is showList of what a Lister reads.
func listFromDatabase[Row any](s *shell, cmd *cobra.Command, f *listFlags, before inbox.ID, read func(context.Context, *inbox.Lister, inbox.PageRequest) (inbox.Page[Row], error),
	draw func([]Row) *table, entry func(*Row) listEntry,
) error {
	return s.read(cmd, func(ctx context.Context, lister *inbox.Lister) error {
		return showList(s, cmd, &f.pageFlags, listing[Row]{draw: draw, entry: entry, page: func(p control.PageRequest) (inbox.Page[Row], error) {
			return read(ctx, lister, inbox.PageRequest{Cursor: p.After, Before: before, Limit: p.Limit})
		}})
	})
}

// openForChange is openPool for what changes rows in bulk or for good. It refuses the tables of
// another version, of which it may not know what they hold.
func (s *shell) openForChange(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := s.openPool(ctx)
	if err != nil {
		return nil, err
	}
	if err := migrations.Validate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
