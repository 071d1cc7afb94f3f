package oncegate

import (
	"context"
	"fmt"
	"net/http"

	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers/catalog"
)

// controlConnections are enough for some people at once; deliveries share none of them.
const controlConnections = 3

// mountPrivate makes what people and programs ask of this process, and serves it on the private listener.
func (i *Inbox) mountPrivate(ctx context.Context) error {
	known, err := catalog.Load()
	if err != nil {
		return fmt.Errorf("reading the catalogue of providers: %w", err)
	}
	pool, err := i.app.OpenPool(ctx, "control pool", controlConnections)
	if err != nil {
		return err
	}
	service, err := control.NewService(control.Config{Pool: pool, Keyring: i.app.Keyring(), Settings: i.settings, Catalog: known})
	if err != nil {
		return err
	}
	handler, err := api.New(api.Config{Service: service, Authenticate: i.authenticate, Logger: i.log})
	if err != nil {
		return err
	}
	i.app.Mount(handler)
	return nil
}

// authenticate says who makes a request on the private listener.
func (i *Inbox) authenticate(*http.Request) (control.Access, error) {
	return control.Access{}, &control.Problem{Code: control.CodeUnauthorized, Detail: "no token is known yet"}
}
