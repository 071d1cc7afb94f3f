package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/background"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/sleep"
)

// GroupConfig configures a [Group]. All fields are required.
type GroupConfig struct {
	// App configures the process. Its Settings are the whole configuration.
	App app.Config

	// Load reads the whole configuration again, with the sources that are stored in one database.
	Load func(ctx context.Context, database string) (*Loaded, error)

	// LoadWith reads the configuration with one source that is stored in a database, and without the others.
	LoadWith func(database string, d config.Definition) (*config.Config, error)

	// Explain returns a text of one line for an error, without secrets.
	Explain func(error) string
}

// Group serves several databases in one process. It runs a [Server] for each database and listens for all of them. A Server has only the
// sources that live in its database, and shares no pools, gate or workers with the others, so a failed database affects only those
// sources. [OpenGroup] returns a Group. It is safe for concurrent use.
type Group struct {
	cfg     GroupConfig
	log     *slog.Logger
	members []*member

	registry *prometheus.Registry // what the process has once
	front    *control.Service
	started  chan struct{}
	draining atomic.Bool

	publicAddr, adminAddr net.Addr
}

// member is one database of a Group.
type member struct {
	name   string
	group  *Group
	server atomic.Pointer[Server] // nil while the database is away
}

// OpenGroup makes a Group. It opens nothing before [Group.Serve].
func OpenGroup(cfg GroupConfig) *Group {
	g := &Group{cfg: cfg, log: cfg.App.Logger, registry: app.NewRegistry(cfg.App.Version), started: make(chan struct{})}
	var databases []control.Database
	for _, name := range cfg.App.Settings.DatabaseNames() {
		m := &member{name: name, group: g}
		g.members = append(g.members, m)
		databases = append(databases, control.Database{Name: name, Service: m.service})
	}
	g.front = control.NewFront(databases, g.homeOf)
	return g
}

// service returns the service for the database, or nil while it is away.
func (m *member) service() *control.Service {
	if s := m.serving(); s != nil {
		return s.lead().service
	}
	return nil
}

// serving returns the Server, or nil while the database is away.
func (m *member) serving() *Server {
	if s := m.server.Load(); s != nil && m.hasServed(s) {
		return s
	}
	return nil
}

// homeOf returns the name of the database in which a source lives, or "" for an unknown source, and those that it has left. For a database
// that is away, it uses what the others know, or the configuration of the start.
func (g *Group) homeOf(source string) (home string, left []string) {
	moved := ""
	for _, m := range g.members {
		s := m.serving()
		if s == nil {
			continue
		}
		switch at := s.lead().settings.HomeOf(source); {
		case s.lead().has(source):
			home = m.name
		case at != "":
			moved, left = at, append(left, m.name)
		}
	}
	return cmp.Or(home, moved, g.cfg.App.Settings.HomeOf(source)), left
}

// has reports whether the source lives in the database of the generation, also if it is withheld.
func (g *generation) has(source string) bool {
	return g.settings.HomeOf(source) == g.settings.Database.Name || slices.Contains(g.withheld, source)
}

// Serve listens on the addresses of the configuration and serves the databases until ctx ends. It starts when at least one database
// answers, and serves each other database as soon as it answers. Serve returns an error if no database answers, or if one of them
// refuses the configuration.
func (g *Group) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // the databases are served until the listeners have closed
	defer stop()
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	if err := g.startMembers(ctx, serving, &running); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	failed := make(chan error, 2)
	closing, err := g.listen(ctx, serving, failed)
	if err != nil {
		return err
	}
	close(g.started)
	var failure error
	select {
	case <-ctx.Done():
		failure = g.leave(failed)
	case failure = <-failed:
		g.log.Error("stopping", slog.Any("error", failure))
	}
	err = errors.Join(failure, g.close(ctx, closing, stop))
	running.Wait()
	if err == nil {
		g.log.Info("stopped")
	}
	return err
}

// close shuts the listeners down and then stops the Servers. If requests take longer than half of the drain time, close stops the Servers
// while the requests end.
func (g *Group) close(ctx context.Context, closing func(context.Context) error, stop func()) error {
	drain := g.cfg.App.Settings.Drain
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	for _, m := range g.members {
		if s := m.serving(); s != nil {
			s.lead().app.ReleaseCallers() // or they would keep the listener from closing
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- closing(ctx) }()
	half := time.NewTimer(drain / 2)
	defer half.Stop()
	select {
	case err := <-ended:
		stop()
		return err
	case <-half.C:
		stop()
		return <-ended
	}
}

// leave keeps everything working for the configured delay, while the process says that it is not ready.
func (g *Group) leave(failed <-chan error) error {
	g.draining.Store(true)
	if g.cfg.App.Settings.DrainDelay <= 0 {
		return nil
	}
	timer := time.NewTimer(g.cfg.App.Settings.DrainDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-failed:
		return err
	}
}

// startMembers serves each database. It returns when each is served or away.
func (g *Group) startMembers(ctx, serving context.Context, running *sync.WaitGroup) error {
	first := make(chan error, len(g.members))
	for _, m := range g.members {
		running.Go(func() { m.follow(serving, first) })
	}
	var away, refused []error
	for range g.members {
		select {
		case err := <-first:
			switch {
			case err == nil:
			case app.IsAway(err):
				away = append(away, err)
			default:
				refused = append(refused, err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(refused) > 0 {
		return errors.Join(refused...)
	}
	if len(away) == len(g.members) {
		return errors.Join(away...)
	}
	return nil
}

const (
	// memberAgain is the pause before the next attempt to reach a database that is away.
	memberAgain = time.Second

	// memberRefused is the pause after a start that failed for another reason.
	memberRefused = 10 * time.Second
)

// follow serves the database until ctx ends. It sends the result of the first start to first: nil once the database is served.
func (m *member) follow(ctx context.Context, first chan<- error) {
	log := m.group.log.With(slog.String("database", m.name))
	var once sync.Once
	report := func(err error) { once.Do(func() { first <- err }) }
	logged := ""
	for ctx.Err() == nil {
		served, err := m.serve(ctx, func() { report(nil) })
		report(err)
		if ctx.Err() != nil {
			return
		}
		if served {
			logged = ""
		}
		pause := memberRefused
		if app.IsAway(err) {
			pause = memberAgain
		}
		if err != nil && logged != err.Error() {
			logged = err.Error()
			log.ErrorContext(ctx, "the database is not served: its sources are answered with 503 until it is", slog.String("error", m.group.cfg.Explain(err)))
		}
		if sleep.For(ctx, pause) != nil {
			return
		}
	}
}

// serve opens a Server for the database and runs it. It calls started once it serves, and returns whether it has served.
func (m *member) serve(ctx context.Context, started func()) (served bool, err error) {
	loaded, err := m.load(ctx)
	if err != nil {
		return false, err
	}
	cfg := m.group.cfg.App
	if whole := cfg.Settings; m.name != whole.Database.Name {
		if err := app.ShareSecret(ctx, whole.Part(whole.Database.Name), loaded.Settings); err != nil {
			loaded.release()
			return false, err
		}
	}
	cfg.Settings, cfg.Logger = loaded.Settings, loaded.Logger
	s, err := Open(ctx, cfg)
	if err != nil {
		loaded.release()
		return false, err
	}
	s.member = true
	s.Reloads(ReloadConfig{
		Load: func() (*Loaded, error) { return m.load(context.Background()) },
		LoadWith: func(d config.Definition) (*config.Config, error) {
			whole, err := m.group.cfg.LoadWith(m.name, d)
			if err != nil {
				return nil, err
			}
			return m.part(whole), nil
		},
		Explain: m.group.cfg.Explain,
	})
	s.lead().release, s.lead().withheld = loaded.Release, loaded.withheld
	m.server.Store(s)
	defer m.server.Store(nil)
	watched := background.Run(ctx, func(ctx context.Context) {
		select {
		case <-s.Started():
			started()
			m.group.release(ctx)
		case <-ctx.Done():
		}
	})
	err = s.Run(ctx)
	_ = watched(context.WithoutCancel(ctx))
	return m.hasServed(s), err
}

// hasServed reports whether a Server of the database has started.
func (m *member) hasServed(s *Server) bool {
	select {
	case <-s.Started():
		return true
	default:
		return false
	}
}

// part returns the part of a whole configuration, which is served by this Group: the delay before a stop is the process's.
func (m *member) part(whole *config.Config) *config.Config {
	part := *whole.Part(m.name)
	part.DrainDelay = 0
	return &part
}
