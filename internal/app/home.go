package app

import (
	"context"

	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// RegisteredSources returns the names of all sources that the database has registered. It returns none for a database without tables.
func RegisteredSources(ctx context.Context, settings *config.Config) (map[string]bool, error) {
	var guard session.Guard
	pool, err := session.OpenPool(ctx, settings.Database.URL, settings.Database.Schema, session.PoolAdmin, 1, session.GuardedBy(&guard))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	if status.Current == 0 {
		return names, nil
	}
	found, err := registry.Read(ctx, pool)
	if err != nil {
		return nil, err
	}
	for name := range found.Sources {
		names[name] = true
	}
	return names, nil
}
