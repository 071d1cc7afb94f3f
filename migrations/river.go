package migrations

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func newRiver() (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("preparing River's migrations: %w", err)
	}
	return m, nil
}

// riverUp upgrades River's tables. It runs each of River's migrations in a transaction together
// with its version. It first writes which programs may run on the new tables, because a program
// reads the records up to the version that it finds.
func (r *runner) riverUp(ctx context.Context, status Status) error {
	if status.River >= RiverVersion {
		return nil
	}
	if err := r.stateRiver(ctx); err != nil {
		return err
	}
	for version := status.River + 1; version <= RiverVersion; version++ {
		if err := r.riverStep(ctx, rivermigrate.DirectionUp); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) riverDown(ctx context.Context) error {
	status, err := r.status(ctx)
	if err != nil {
		return err
	}
	for ; status.River > 0; status.River-- {
		if err := r.riverStep(ctx, rivermigrate.DirectionDown); err != nil {
			return err
		}
	}
	return nil
}

// riverStep runs one of River's migrations in a separate transaction, as River does.
func (r *runner) riverStep(ctx context.Context, direction rivermigrate.Direction) error {
	m, err := newRiver()
	if err != nil {
		return err
	}
	return r.inTx(ctx, "River's migrations", func(tx pgx.Tx) error {
		// River discourages MigrateTx for several migrations in one transaction, but this is only
		// one.
		_, err := m.MigrateTx(ctx, tx, direction, &rivermigrate.MigrateOpts{MaxSteps: 1}) //nolint:staticcheck // as said
		if err != nil {
			return fmt.Errorf("migrating River's tables: %w", err)
		}
		return nil
	})
}

// stateRiver records which programs may run on River's tables at this binary's version.
func (r *runner) stateRiver(ctx context.Context) error {
	return r.inTx(ctx, "the versions of programs", func(tx pgx.Tx) error {
		var has bool
		if err := tx.QueryRow(ctx, hasStated).Scan(&has); err != nil || !has {
			return err
		}
		_, err := tx.Exec(ctx, writeStated+" WHERE schema_version.oldest <> excluded.oldest", "river", RiverVersion, riverOldest)
		return err
	})
}
