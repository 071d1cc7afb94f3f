package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/config"
)

// orderDefinition returns the definition of a route's order, or nil if it has none.
func orderDefinition(s *config.Source, r *config.Route) *inbox.OrderDefinition {
	o := &r.Order
	if !o.Ordered() {
		return nil
	}
	own := "the provider's (" + s.Provider.Name() + ")"
	key, number := own, own
	if o.Key != nil {
		key = o.Key.String()
	}
	if o.Number != nil {
		number = o.Number.String()
	}
	return &inbox.OrderDefinition{Words: fmt.Sprintf("mode %s, key %s, number %s", o.Mode, key, number), Policy: o.Policy}
}

// OrderChanges returns the routes whose order the configuration defines differently from the
// database, and what happens to the effects that they hold. It writes nothing.
func OrderChanges(ctx context.Context, pool *pgxpool.Pool, cfg *config.Config) ([]inbox.OrderChange, error) {
	var out []inbox.OrderChange
	for _, s := range cfg.Sources {
		for _, r := range s.Routes {
			change, err := inbox.ReadOrderChange(ctx, pool, s.Name, r.Name, orderDefinition(s, r))
			if err != nil {
				return nil, err
			}
			if change != nil {
				out = append(out, *change)
			}
		}
	}
	return out, nil
}

// registerOrders writes how routes are ordered, and logs what that changes.
func (a *App) registerOrders(ctx context.Context) error {
	changes, err := OrderChanges(ctx, a.adminPool, a.settings)
	if err != nil {
		return err
	}
	for _, c := range changes {
		a.log.WarnContext(ctx, "the order of a route has changed", slog.String("source", c.Source), slog.String("route", c.Route),
			slog.Int("streams", c.Streams), slog.Int("held", c.Held), slog.String("what", c.String()))
	}
	a.series, err = inbox.RegisterOrders(ctx, a.adminPool, a.keys, a.orders(a.settings.Sources...))
	return err
}

// orders returns the definitions of the orders of the sources' routes that have a row, by the row's
// id.
func (a *App) orders(sources ...*config.Source) map[int32]inbox.OrderDefinition {
	orders := map[int32]inbox.OrderDefinition{}
	for _, s := range sources {
		for _, r := range s.Routes {
			row, known := a.sources[s.Name].Routes[r.Name]
			if d := orderDefinition(s, r); d != nil && known {
				orders[row.ID] = *d
			}
		}
	}
	return orders
}
