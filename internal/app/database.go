package app

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// openDatabase opens the pools and refuses a schema that does not fit.
func (a *App) openDatabase(ctx context.Context) error {
	var err error
	if a.adminPool, err = a.openPool(ctx, "admin pool", session.PoolAdmin, 4); err != nil {
		return err
	}
	a.clock = inbox.NewClock(a.adminPool, a.cfg.Now).WithLogger(a.log)
	a.cleanups.add("clock", func(context.Context) error { a.clock.Stop(); return nil })
	if a.unasked {
		return nil
	}
	if err := a.proveSessions(ctx); err != nil {
		return err
	}
	status, err := migrations.Read(ctx, a.adminPool)
	if err != nil {
		return err
	}
	if err := status.Check(); err != nil {
		return err
	}
	a.tables = status.Tables
	if err := inbox.Writable(ctx, a.adminPool); err != nil {
		return err
	}
	if err := a.openHistory(ctx); err != nil {
		return err
	}
	volatile, err := inbox.Volatile(ctx, a.adminPool)
	if err != nil {
		return err
	}
	for _, setting := range volatile {
		a.log.WarnContext(ctx, "the database may lose what it has committed: turn the setting on", "setting", setting)
	}
	return a.clock.Start(ctx)
}

func (a *App) openPool(ctx context.Context, name string, role session.PoolRole, size int32) (*pgxpool.Pool, error) {
	return a.openPoolWithin(ctx, name, role, size, 0)
}

func (a *App) openPoolWithin(ctx context.Context, name string, role session.PoolRole, size int32, silence time.Duration, more ...session.PoolOption) (*pgxpool.Pool, error) {
	options := append([]session.PoolOption{session.GuardedBy(&a.sessions)}, more...)
	if unfenced() {
		options[0] = session.GuardedBy(new(session.Guard))
	}
	if role == session.PoolWork || role == session.PoolQueue {
		options = append(options, session.VanishAfter(a.settings.Work.Lease))
	}
	pool, err := session.OpenPoolWithin(ctx, a.settings.Database.URL, a.settings.Database.Schema, role, size, silence, options...)
	if err != nil {
		return nil, err
	}
	if pool, err = failingPool(ctx, pool); err != nil {
		return nil, err
	}
	a.cleanups.add(name, func(ctx context.Context) error { return closePool(ctx, pool) })
	return pool, nil
}

// closePool waits for borrowed connections, but not longer than ctx.
func closePool(ctx context.Context, pool *pgxpool.Pool) error {
	done := make(chan struct{})
	go func() { pool.Close(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
