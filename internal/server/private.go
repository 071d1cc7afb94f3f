package server

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/logins"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers/catalog"
)

// controlConnections is enough for several people at once. Deliveries do not use these connections.
// Only one replay is planned at a time; it uses planConnections.
const (
	controlConnections = 3
	planConnections    = 4
)

// mountPrivate creates the API and the console and serves them on the private listener.
func (s *Server) mountPrivate(ctx context.Context) error {
	pool, err := s.app.OpenPool(ctx, "control pool", controlConnections)
	if err != nil {
		return err
	}
	plans, err := s.app.OpenPool(ctx, "plan pool", planConnections)
	if err != nil {
		return err
	}
	service, err := control.NewService(control.Config{
		Pool: pool, Lists: s.app.ListPool(), Plans: plans, Keyring: s.app.Keyring(), Settings: s.settings, Catalog: new(catalog.Lazy), DevURL: s.app.DevURL(), Logger: s.log,
		Ready: s.app.Ready, Deliver: s.app.Deliver(),
	})
	if err != nil {
		return err
	}
	s.app.OnStop("control", func(context.Context) error { service.Stop(); return nil })
	who, err := s.newAccess(pool)
	if err != nil {
		return err
	}
	handler, err := api.New(api.Config{Service: service, Authenticate: who.Authenticate, Logger: s.log})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(api.Prefix+"/", handler)
	pages, err := s.newConsole(ctx, service, who)
	if err != nil {
		return err
	}
	if s.settings.Console.Off {
		pages = handler // the API's handler has no pages
	}
	mux.Handle("/", pages)
	who.Mount(mux)
	s.app.Mount(mux)
	return nil
}

// newAccess returns what authenticates requests on the private listener.
func (s *Server) newAccess(pool *pgxpool.Pool) (*access.Access, error) {
	console := s.settings.Console
	cfg := access.Config{
		Tokens: tokens.NewStore(pool, nil), Logins: logins.NewStore(logins.Config{Pool: pool}),
		Page: drawLogin, URL: console.URL, TrustedProxies: s.settings.Listen.TrustedProxies, Logger: s.log,
	}
	if o := console.OIDC; o != nil {
		cfg.OIDC = &access.OIDC{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.Secret(), Scopes: o.Scopes, Claim: o.Claim, Allow: o.Allow}
		for _, role := range o.Roles {
			cfg.OIDC.Roles = append(cfg.OIDC.Roles, access.Role(role))
		}
	}
	return access.New(cfg)
}
