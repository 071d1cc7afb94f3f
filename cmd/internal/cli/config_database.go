package cli

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/migrations"
)

// databaseCheck describes what a configuration would change in the database.
type databaseCheck struct {
	// empty means that there are no tables yet.
	empty  bool
	names  *registry.RegistrationCheck // nil if the database was not read
	orders []inbox.OrderChange
}

// checkDatabase compares a configuration with the database. It writes nothing.
func (s *shell) checkDatabase(ctx context.Context, cfg *config.Config) (*databaseCheck, error) {
	pool, err := s.openPool(ctx)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if err := inbox.CheckStandbys(ctx, pool, cfg.NeedStandby()); err != nil {
		return nil, err
	}
	status, err := migrations.Read(ctx, pool)
	if err != nil {
		return nil, err
	}
	if status.Current == 0 {
		return &databaseCheck{empty: true}, nil
	}
	if err := migrations.Validate(ctx, pool); err != nil {
		return nil, err
	}
	lists, err := s.openListPool(ctx)
	if err != nil {
		return nil, err
	}
	defer lists.Close()
	if err := s.checkListPool(ctx, pool, lists); err != nil {
		return nil, err
	}
	out := &databaseCheck{}
	if out.names, err = app.CheckRegistration(ctx, pool, cfg); err != nil {
		return nil, err
	}
	out.orders, err = app.OrderChanges(ctx, pool, cfg)
	return out, err
}

// lines returns the result as text, one fact per line.
func (c *databaseCheck) lines() (out []string) {
	if c.empty {
		return []string{"database: it has no tables yet: run `oncegate migrate up`"}
	}
	if c.names != nil {
		for _, r := range c.names.Renames {
			out = append(out, fmt.Sprintf("rename: %s %s becomes %s and keeps what it has", r.What, r.From, r.Into))
		}
		for _, name := range c.names.Exchanged {
			out = append(out, "note: the name "+name+" changes hands: stop every process with another configuration before one starts with this one")
		}
		for _, u := range c.names.Unknown {
			out = append(out, "note: the database never had a previous name of "+u)
		}
		for _, r := range c.names.Routes {
			out = append(out, "warning: "+r.String())
		}
		for _, r := range c.names.Sources {
			out = append(out, "warning: "+r.String())
		}
	}
	for _, o := range c.orders {
		out = append(out, "order: "+o.String())
	}
	return out
}
