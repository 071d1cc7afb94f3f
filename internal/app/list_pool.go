package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
)

// listConnections are enough for several operators at once, and few enough not to slow down deliveries.
const listConnections = 3

// ListPool returns the pool for lists and details. It is read-only, and its statements have a short timeout.
func (a *App) ListPool() *pgxpool.Pool { return a.lists }

// DecidingPool returns a pool with the settings of the list pool. It always reads the primary, because decisions depend on the current state.
func (a *App) DecidingPool() *pgxpool.Pool {
	if a.deciding == nil {
		return a.lists
	}
	return a.deciding
}

// openListPool opens the pool of lists as database.list_url says, if that is set. Deliveries need no list, so the
// process starts even if the role lacks a right or cannot connect. The log then says what to do.
func (a *App) openListPool(ctx context.Context) (err error) {
	if err := a.collect(a.newDataAgeMetric()); err != nil {
		return err
	}
	if a.settings.Database.ListURL == "" {
		a.lists, err = a.openPool(ctx, "list pool", session.PoolList, listConnections)
		return err
	}
	if a.lists, err = OpenListPool(ctx, a.settings.Database, listConnections, session.FencedBy(a.sessions.History())); err != nil {
		return err
	}
	a.cleanups.add("list pool", func(ctx context.Context) error { return closePool(ctx, a.lists) })
	if a.deciding, err = a.openPool(ctx, "decision pool", session.PoolList, listConnections); err != nil {
		return err
	}
	if a.unasked {
		return nil
	}
	a.watchDataAge()
	if err := session.CheckListPool(ctx, a.adminPool, a.lists); errors.Is(err, session.ErrOtherDatabase) {
		return err
	} else if err != nil {
		a.log.ErrorContext(ctx, "the console and the API cannot show their lists", slog.Any("error", err))
	}
	return nil
}

// OpenListPool opens a pool for lists with database.list_url, or with database.url if that is not set. If a pooler
// shares the sessions of database.list_url, only this pool stops working.
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
