package server

import (
	"context"
	"net/http"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// newConsole returns the console. Its pages do what the API does, with the access of the logged-in
// person. cfg says who that is, and has the log.
func newConsole(ctx context.Context, service *control.Service, cfg console.Config) (http.Handler, error) {
	cfg.Caller = func(access control.Access) control.Caller { return &control.Local{Service: service, Access: access} }
	cfg.Login, cfg.Done, cfg.Freshness = access.LoginAddress, ctx.Done(), service.Freshness
	return console.New(cfg)
}

// drawLogin writes the login page in the style of the console.
func drawLogin(w http.ResponseWriter, r *http.Request, status int, page access.LoginPage) {
	console.DrawLogin(w, r, status, console.LoginPage(page))
}
