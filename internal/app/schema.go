package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/migrations"
)

// schemaEvery is how often a process checks whether it may still run on the schema.
const schemaEvery = 5 * time.Second

// schemaFit is the last result of that check. A newer program may migrate the schema at any time.
type schemaFit struct {
	misfit atomic.Pointer[error] // nil while this process may run on it
}

// Err returns why this process must not run on the schema, or nil while it may.
func (f *schemaFit) Err() error {
	if err := f.misfit.Load(); err != nil {
		return *err
	}
	return nil
}

// watchSchema repeats the check. If the schema cannot be read, the last result remains.
func (a *App) watchSchema() {
	a.starts = append(a.starts, step{name: "schema", run: func(ctx context.Context) error {
		a.every(ctx, "schema", schemaEvery, a.lookAtSchema)
		return nil
	}})
}

func (a *App) lookAtSchema(ctx context.Context) {
	err := a.validate(ctx)
	switch before := a.fit.Err(); {
	case errors.Is(err, migrations.ErrSchema):
		a.fit.misfit.Store(&err)
		if before == nil {
			a.log.ErrorContext(ctx, "this process takes no deliveries and does no work any more", slog.Any("error", err))
		}
	case err == nil && before != nil:
		a.fit.misfit.Store(nil)
		a.log.InfoContext(ctx, "this process may run on the schema again")
	}
}

// validate returns an error unless this process may run on the schema: the schema must fit the
// program, and its tables must be those in which the process has registered its sources. Another
// program may have recreated them.
func (a *App) validate(ctx context.Context) error {
	status, err := migrations.Read(ctx, a.adminPool)
	if err != nil {
		return err
	}
	if err := status.Check(); err != nil {
		return err
	}
	if status.Tables != a.tables {
		return fmt.Errorf("%w: its tables were created again and lack the sources of this process: restart it", migrations.ErrSchema)
	}
	return nil
}

// checkSchema is validate for readiness, without the driver's messages.
func (a *App) checkSchema(ctx context.Context) error {
	err := a.validate(ctx)
	if err != nil && !errors.Is(err, migrations.ErrSchema) {
		return errors.New("not readable")
	}
	return err
}

// fittingGate accepts no delivery while this process must not run on the schema.
type fittingGate struct {
	receiver.Accepter
	fit *schemaFit
}

// Accept implements [receiver.Accepter].
func (g *fittingGate) Accept(ctx context.Context, admission *inbox.Admission) (inbox.Receipt, error) {
	if err := g.fit.Err(); err != nil {
		return inbox.Receipt{}, fmt.Errorf("%w: %w", gate.ErrUnavailable, err)
	}
	return g.Accepter.Accept(ctx, admission)
}
