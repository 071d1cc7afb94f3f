package server

import (
	"context"
	"net/http"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// newConsole returns the console. Its pages do what the API does, with the access of the logged-in
// person.
func newConsole(ctx context.Context, g *generation, service *control.Service, who *access.Access) (http.Handler, error) {
	return console.New(console.Config{
		Caller:       func(access control.Access) control.Caller { return &control.Local{Service: service, Access: access} },
		Authenticate: who.Authenticate, Login: access.LoginAddress, Protect: who.Protect, Logger: g.log, Done: ctx.Done(), Freshness: service.Freshness, Buffered: g.settings.Buffer.On(),
	})
}

// drawLogin writes the login page in the style of the console.
func drawLogin(w http.ResponseWriter, r *http.Request, status int, page access.LoginPage) {
	console.DrawLogin(w, r, status, console.LoginPage(page))
}
