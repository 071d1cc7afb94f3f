package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// newConsole returns the console. Its pages do what the API does, with the access of the logged-in
// person.
func newConsole(ctx context.Context, log *slog.Logger, service *control.Service, authenticate func(*http.Request) (control.Access, error), protect func(http.Handler) http.Handler) (http.Handler, error) {
	return console.New(console.Config{
		Caller:       func(access control.Access) control.Caller { return &control.Local{Service: service, Access: access} },
		Authenticate: authenticate, Login: access.LoginAddress, Protect: protect, Logger: log, Done: ctx.Done(), Freshness: service.Freshness,
	})
}

// drawLogin writes the login page in the style of the console.
func drawLogin(w http.ResponseWriter, r *http.Request, status int, page access.LoginPage) {
	console.DrawLogin(w, r, status, console.LoginPage(page))
}
