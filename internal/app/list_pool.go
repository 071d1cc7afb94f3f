package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/session"
)

// listConnections are enough for some people at once, and few enough to take little from deliveries.
const listConnections = 3

// ListPool is for lists and for what is shown: nothing can be written through it, and no statement of it runs for long.
func (a *App) ListPool() *pgxpool.Pool { return a.lists }

// openListPool opens the pool of lists as database.list_url says, if that is set. Deliveries need no list: a role that lacks
// a right, or that cannot be asked now, is no reason not to start. The log says then what to do.
func (a *App) openListPool(ctx context.Context) (err error) {
	if a.settings.Database.ListURL == "" {
		a.lists, err = a.openPool(ctx, "list pool", session.PoolList, listConnections)
		return err
	}
	if a.lists, err = OpenListPool(ctx, a.settings.Database, listConnections, session.FencedBy(a.sessions.History())); err != nil {
		return err
	}
	a.cleanups.add("list pool", func(ctx context.Context) error { return closePool(ctx, a.lists) })
	if a.unasked {
		return nil
	}
	if err := session.CheckListPool(ctx, a.adminPool, a.lists); errors.Is(err, session.ErrOtherDatabase) {
		return err
	} else if err != nil {
		a.log.ErrorContext(ctx, "the console and the API cannot show their lists", slog.Any("error", err))
	}
	return nil
}

// OpenListPool opens a pool for lists by database.list_url, or by database.url where that is not set. A pooler that shares
// the sessions of database.list_url stops this pool and no other.
func OpenListPool(ctx context.Context, database config.Database, size int32, options ...session.PoolOption) (*pgxpool.Pool, error) {
	if database.ListURL == "" {
		return session.OpenPool(ctx, database.URL, database.Schema, session.PoolList, size, options...)
	}
	pool, err := session.OpenPool(ctx, database.ListURL, database.Schema, session.PoolList, size, append(options, session.AnyHost())...)
	if err != nil {
		return nil, fmt.Errorf("database.list_url: %w", err)
	}
	return pool, nil
}
