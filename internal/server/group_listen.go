package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/oncegate/oncegate/inbox/admin"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/console"
	"github.com/oncegate/oncegate/internal/control"
)

// listening is a listener of the process.
type listening struct {
	name, address string
	server        *http.Server
	bound         *net.Addr
	connections   *receiver.Connections // nil if they are not limited
}

// listen opens both listeners. closing shuts them down and waits for the requests under way.
func (g *Group) listen(ctx, pages context.Context, failed chan<- error) (closing func(context.Context) error, err error) {
	settings := g.cfg.App.Settings
	private, err := g.private(pages)
	if err != nil {
		return nil, err
	}
	open := []listening{{name: "admin", address: settings.Listen.Admin, server: private, bound: &g.adminAddr}}
	if g.cfg.App.Receive {
		public, connections, err := app.NewPublicServer(g.cfg.App, http.HandlerFunc(g.deliver), g.registry)
		if err != nil {
			return nil, err
		}
		open = slices.Insert(open, 0, listening{"public", settings.Listen.Public, public, &g.publicAddr, connections})
	}
	var sockets []net.Listener
	for _, o := range open {
		var lc net.ListenConfig
		socket, err := lc.Listen(ctx, "tcp", o.address)
		if err != nil {
			for _, s := range sockets {
				_ = s.Close()
			}
			return nil, fmt.Errorf("listening on the %s address %s: %w", o.name, o.address, err)
		}
		*o.bound, sockets = socket.Addr(), append(sockets, socket)
	}
	for i, o := range open {
		socket := sockets[i]
		if o.connections != nil {
			socket = o.connections.Listen(socket)
		}
		go func() {
			if err := o.server.Serve(socket); err != nil && !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s listener: %w", o.name, err)
			}
		}()
	}
	return func(ctx context.Context) error {
		errs := make([]error, len(open))
		for i, o := range open {
			if errs[i] = o.server.Shutdown(ctx); errs[i] != nil {
				_ = o.server.Close()
			}
		}
		return errors.Join(errs...)
	}, nil
}

// deliver passes a delivery to the database in which its source lives. It answers 503 for a withheld source, and for an unknown source
// while a database is away, because the source may live there.
func (g *Group) deliver(w http.ResponseWriter, r *http.Request) {
	if g.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/in/"), "/")
	var other *Server
	moved := false
	for _, m := range g.members {
		s := m.serving()
		switch {
		case s == nil:
			continue
		case slices.Contains(s.lead().withheld, name):
			app.Refuse(w, r)
			return
		case s.lead().has(name):
			app.Deliver(w, r, s.leadApp)
			return
		}
		other, moved = s, moved || s.lead().settings.HomeOf(name) != ""
	}
	if other == nil || moved || g.away() { // one that has moved arrives with the next reload
		app.Refuse(w, r)
		return
	}
	app.Deliver(w, r, other.leadApp) // which answers that there is no such source
}

// away reports whether a database is not served.
func (g *Group) away() bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return m.serving() == nil })
}

func (s *Server) leadApp() *app.App { return s.lead().app }

// private makes the server of the private listener. Pages that are kept open end with pages.
func (g *Group) private(pages context.Context) (*http.Server, error) {
	checks := []admin.Check{{Name: "process", Ready: func(context.Context) error {
		if g.draining.Load() {
			return errors.New("stopping")
		}
		return nil
	}}}
	for _, m := range g.members {
		checks = append(checks, admin.Check{Name: m.name, Ready: m.ready})
	}
	private, err := admin.New(admin.Config{Gatherer: g, Logger: g.log, Checks: checks, Degraded: g.degraded, Hosts: app.ConsoleHosts(g.cfg.App.Settings)})
	if err != nil {
		return nil, err
	}
	handler, err := api.New(api.Config{Service: g.front, Authenticate: g.authenticate, Logger: g.log})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(api.Prefix+"/", handler)
	shown := http.Handler(handler) // which has no pages
	if !g.cfg.App.Settings.Console.Off {
		protect := func(next http.Handler) http.Handler {
			return g.byAccess(func(a *access.Access) http.Handler { return a.Protect(next) })
		}
		if shown, err = newConsole(pages, g.front, console.Config{Authenticate: g.authenticate, Protect: protect, Logger: g.log, Buffered: g.cfg.App.Settings.Buffer.On()}); err != nil {
			return nil, err
		}
	}
	mux.Handle("/", shown)
	logins := g.byAccess((*access.Access).Handler)
	for _, path := range []string{access.LoginPath, access.LoginPath + "/", access.LogoutPath} {
		mux.Handle(path, logins)
	}
	private.Mount(mux)
	return private.NewServer(), nil
}

// ready returns why the database cannot be served now, in one line.
func (m *member) ready(ctx context.Context) error {
	s := m.serving()
	if s == nil {
		return errors.New("not served yet: the log says why")
	}
	if err := s.Ready(ctx); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// degraded returns the status of a process that serves some of its databases, or "" if it serves none or stops.
func (g *Group) degraded(failed map[string]error) string {
	if failed["process"] != nil || len(failed) >= len(g.members) {
		return ""
	}
	return "degraded"
}

// byAccess serves requests with the logins of the first database that is served.
func (g *Group) byAccess(handler func(*access.Access) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, m := range g.members {
			if s := m.serving(); s != nil && s.lead().who != nil {
				handler(s.lead().who).ServeHTTP(w, r)
				return
			}
		}
		app.Refuse(w, r)
	})
}

// authenticate accepts the tokens and logins of every database, so that people can use the others while one is away.
func (g *Group) authenticate(r *http.Request) (control.Access, error) {
	var refused, unavailable error
	for _, m := range g.members {
		s := m.serving()
		if s == nil || s.lead().who == nil {
			unavailable = &control.Problem{Code: control.CodeUnavailable, Detail: "the database " + m.name + ", which may have the token or login, does not answer"}
			continue
		}
		found, err := s.lead().who.Authenticate(r)
		switch code := control.ProblemOf(err).Code; {
		case err == nil:
			return found, nil
		case code == control.CodeUnavailable:
			unavailable = err
		case refused == nil || control.ProblemOf(refused).Code == control.CodeUnauthorized:
			refused = err
		}
	}
	if unavailable != nil && (refused == nil || control.ProblemOf(refused).Code == control.CodeUnauthorized) && hasCredential(r) {
		return control.Access{}, unavailable
	}
	return control.Access{}, refused
}

// hasCredential reports whether a request has a token or a cookie that a database could know.
func hasCredential(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != ""
}

// Gather implements [prometheus.Gatherer] with the metrics of the process and of each database, which have the label database.
func (g *Group) Gather() ([]*dto.MetricFamily, error) {
	all, err := g.registry.Gather()
	errs := []error{err}
	families := map[string]*dto.MetricFamily{}
	for _, f := range all {
		families[f.GetName()] = f
	}
	for _, m := range g.members {
		s := m.serving()
		if s == nil {
			continue
		}
		gathered, err := s.Gather()
		errs = append(errs, err)
		for _, f := range gathered {
			if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") || f.GetName() == "oncegate_build_info" {
				continue // the process has them once
			}
			for _, metric := range f.Metric {
				labels := slices.Clone(metric.GetLabel()) // the metric keeps its own
				metric.Label = append(labels, &dto.LabelPair{Name: new("database"), Value: new(m.name)})
				slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
			}
			if have := families[f.GetName()]; have != nil {
				have.Metric = append(have.Metric, f.Metric...)
				continue
			}
			families[f.GetName()] = f
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, errors.Join(errs...)
}

var _ prometheus.Gatherer = (*Group)(nil)

// Reload reloads the configuration of every member. If a member refuses it, the others still apply it.
func (g *Group) Reload(ctx context.Context) error {
	var errs []error
	for _, m := range g.members {
		if s := m.serving(); s != nil {
			if err := s.Reload(ctx); err != nil {
				errs = append(errs, fmt.Errorf("database %s: %w", m.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Started returns a channel that is closed when the Group serves.
func (g *Group) Started() <-chan struct{} { return g.started }

// PublicAddr returns the address of the public listener once the Group has Started. It is nil without the role receive.
func (g *Group) PublicAddr() net.Addr { return g.publicAddr }

// AdminAddr returns the address of the private listener once the Group has Started.
func (g *Group) AdminAddr() net.Addr { return g.adminAddr }
