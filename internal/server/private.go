package server

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers/catalog"
)

// controlConnections is enough for several people at once. Deliveries do not use these connections.
// Only one replay is planned at a time; it uses planConnections.
const (
	controlConnections = 3
	planConnections    = 4
)

// mountPrivate creates the API and the console of a generation and serves them on the private listener, unless a Group does that. The pages of the
// console that are kept open end with running.
func (s *Server) mountPrivate(ctx, running context.Context, g *generation) error {
	pool, err := g.app.OpenPool(ctx, "control pool", controlConnections)
	if err != nil {
		return err
	}
	plans, err := g.app.OpenPool(ctx, "plan pool", planConnections)
	if err != nil {
		return err
	}
	var reload func(context.Context, control.ReloadRequest, string) (control.Reloaded, error)
	var check func(context.Context, config.Definition) ([]string, error)
	if s.reloads.cfg.Load != nil {
		reload = s.reloadFor
	}
	if s.reloads.cfg.LoadWith != nil {
		check = s.checkDefinition
	}
	service, err := control.NewService(control.Config{
		Pool: pool, Lists: g.app.ListPool(), Deciding: g.app.DecidingPool(), Freshness: g.app.Freshness, Plans: plans, Keyring: g.app.Keyring(), Archive: g.app.Archive(), Settings: g.settings, Catalog: new(catalog.Lazy), DevURL: g.app.DevURL(), Logger: g.log,
		Ready: g.app.Ready, Buffer: g.app.BufferState, Deliver: g.app.Deliver(), Reload: reload, CheckDefinition: check,
	})
	if err != nil {
		return err
	}
	g.app.OnStop("control", func(ctx context.Context) error {
		if g.app.Retired() {
			service.Finish(ctx)
		}
		service.Stop()
		return nil
	})
	who, err := newAccess(g, pool)
	if err != nil {
		return err
	}
	if g.service, g.who = service, who; s.member {
		return nil
	}
	handler, err := api.New(api.Config{Service: service, Authenticate: who.Authenticate, Logger: g.log})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(api.Prefix+"/", handler)
	pages, err := newConsole(running, service, console.Config{Authenticate: who.Authenticate, Protect: who.Protect, Logger: g.log, Buffered: g.settings.Buffer.On()})
	if err != nil {
		return err
	}
	if g.settings.Console.Off {
		pages = handler // the API's handler has no pages
	}
	mux.Handle("/", pages)
	who.Mount(mux)
	g.app.Mount(mux)
	return nil
}

// newAccess returns what authenticates requests on the private listener.
func newAccess(g *generation, pool *pgxpool.Pool) (*access.Access, error) {
	pages := g.settings.Console
	cfg := access.Config{
		Tokens: tokens.NewStore(pool, nil), Logins: logins.NewStore(logins.Config{Pool: pool}),
		Page: drawLogin, URL: pages.URL, TrustedProxies: g.settings.Listen.TrustedProxies, Logger: g.log,
	}
	if o := pages.OIDC; o != nil {
		cfg.OIDC = &access.OIDC{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.Secret(), Scopes: o.Scopes, Claim: o.Claim, Allow: o.Allow}
		for _, role := range o.Roles {
			cfg.OIDC.Roles = append(cfg.OIDC.Roles, access.Role(role))
		}
	}
	return access.New(cfg)
}
