package oncegate

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
func (i *Inbox) mountPrivate(ctx context.Context) error {
	pool, err := i.app.OpenPool(ctx, "control pool", controlConnections)
	if err != nil {
		return err
	}
	plans, err := i.app.OpenPool(ctx, "plan pool", planConnections)
	if err != nil {
		return err
	}
	service, err := control.NewService(control.Config{
		Pool: pool, Lists: i.app.ListPool(), Plans: plans, Keyring: i.app.Keyring(), Settings: i.settings, Catalog: new(catalog.Lazy), DevURL: i.app.DevURL(), Logger: i.log,
		Ready: i.app.Ready, Deliver: i.app.Deliver(),
	})
	if err != nil {
		return err
	}
	i.app.OnStop("control", func(context.Context) error { service.Stop(); return nil })
	who, err := i.newAccess(pool)
	if err != nil {
		return err
	}
	handler, err := api.New(api.Config{Service: service, Authenticate: who.Authenticate, Logger: i.log})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(api.Prefix+"/", handler)
	pages, err := i.newConsole(ctx, service, who)
	if err != nil {
		return err
	}
	if i.settings.Console.Off {
		pages = handler // the API's handler has no pages
	}
	mux.Handle("/", pages)
	who.Mount(mux)
	i.app.Mount(mux)
	return nil
}

// newAccess returns what authenticates requests on the private listener.
func (i *Inbox) newAccess(pool *pgxpool.Pool) (*access.Access, error) {
	console := i.settings.Console
	cfg := access.Config{
		Tokens: tokens.NewStore(pool, nil), Logins: logins.NewStore(logins.Config{Pool: pool}),
		Page: drawLogin, URL: console.URL, TrustedProxies: i.settings.Listen.TrustedProxies, Logger: i.log,
	}
	if o := console.OIDC; o != nil {
		cfg.OIDC = &access.OIDC{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.Secret(), Scopes: o.Scopes, Claim: o.Claim, Allow: o.Allow}
		for _, role := range o.Roles {
			cfg.OIDC.Roles = append(cfg.OIDC.Roles, access.Role(role))
		}
	}
	return access.New(cfg)
}
