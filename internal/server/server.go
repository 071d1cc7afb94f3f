// Package server runs one process of Oncegate, for the binary and for programs that embed Oncegate: it opens the database, takes
// the handlers of routes, serves until its context ends, and stops. Package app has the parts, and this package adds
// the API and the console.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/background"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

// ErrClosed is wrapped by the errors of a [Server] after Close, or after Run has ended.
var ErrClosed = errors.New("the Inbox is closed: open another one")

// ErrRunning is wrapped by the errors of methods of [Server] that must be called before Run, if Run has already been
// called.
var ErrRunning = errors.New("the Inbox runs already")

// phase is the state of a Server in its life cycle.
type phase int

const (
	opened phase = iota
	running
	closed
)

// refusal returns the error of a method that requires the phase opened.
func (p phase) refusal() error {
	if p == closed {
		return ErrClosed
	}
	return ErrRunning
}

// Server is one process: it accepts deliveries and runs their effects. [Open] returns a Server. It is safe for
// concurrent use.
type Server struct {
	cfg     app.Config
	listens bool // set by Serve
	member  bool // of a Group, which has the API and the console
	current atomic.Pointer[generation]
	reloads *reloads

	mu       sync.Mutex
	phase    phase
	handlers map[string]app.Handler
	mistakes []error         // errors of Handle, which Run returns
	runs     context.Context // of Run; nil before and after
	stop     context.CancelFunc
	ended    chan struct{} // closed when everything is closed

	started chan struct{} // closed when the Server serves
	failed  <-chan error  // gets the error of a part that has ended
}

// generation is an App with one configuration. A reload makes another one.
type generation struct {
	app      *app.App
	settings *config.Config
	log      *slog.Logger
	release  func()             // for the log; may be nil
	end      context.CancelFunc // ends pages that are kept open

	withheld []string // names of sources of a member of a Group that it does not serve yet

	service *control.Service // once it is prepared
	who     *access.Access   // likewise
}

// lead returns the generation that serves.
func (s *Server) lead() *generation { return s.current.Load() }

// follow makes a generation the one that serves.
func (s *Server) follow(next *generation) { s.current.Store(next) }

// Open opens the database as [app.Open] does. The Server accepts and runs nothing before [Server.Run] or
// [Server.Serve]. Call Close, Run or Serve to free the resources.
func Open(ctx context.Context, cfg app.Config) (*Server, error) {
	a, err := app.Open(ctx, cfg)
	if err != nil && cfg.Wait && app.IsAway(err) {
		a, err = openWaiting(ctx, cfg, err)
	}
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, reloads: newReloads(), handlers: map[string]app.Handler{}, ended: make(chan struct{}), started: make(chan struct{}),
	}
	s.follow(&generation{app: a, settings: cfg.Settings, log: cfg.Logger})
	return s, nil
}

// Run accepts deliveries through [Server.Deliveries], runs effects, and maintains the tables until ctx ends. Then it
// stops accepting, finishes running work within the configured time, closes everything and returns nil. An error
// describes what prevented it from starting, continuing or finishing. A Server can run only once.
func (s *Server) Run(ctx context.Context) error { return s.run(ctx) }

// Serve is like [Server.Run], and listens on the addresses of the configuration. The limits on senders' connections
// apply only here.
func (s *Server) Serve(ctx context.Context) error {
	s.listens = true
	return s.run(ctx)
}

func (s *Server) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.begin(ctx, cancel); err != nil {
		return err
	}
	defer s.finish()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ctx ended during the start, which was undone
		}
		return err
	}
	close(s.started)
	following := func(context.Context) error { return nil }
	if s.reloads.cfg.Load != nil {
		following = background.Run(ctx, s.followDefinitions)
	}
	followed := func(context.Context) error { return nil }
	if s.lead().app.Waiting() {
		followed = background.Run(ctx, s.followWaiting)
	}
	var failure error
	select {
	case <-ctx.Done():
		s.endReloads()
		failure = s.leave()
	case failure = <-s.failed:
		s.lead().log.ErrorContext(ctx, "stopping", slog.Any("error", failure))
		cancel()
		s.endReloads()
	}
	_ = following(context.WithoutCancel(ctx)) // a reload that is under way has ended
	_ = followed(context.WithoutCancel(ctx))
	err := s.drain(ctx)
	if err == nil {
		s.lead().log.InfoContext(ctx, "stopped")
	}
	return errors.Join(failure, err)
}

// running returns the context of Run, or nil unless the Server serves.
func (s *Server) running() context.Context {
	select {
	case <-s.started:
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

// begin changes the phase from opened to running.
func (s *Server) begin(ctx context.Context, stop context.CancelFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != opened {
		return fmt.Errorf("running an Inbox: %w", s.phase.refusal())
	}
	s.phase, s.runs, s.stop = running, ctx, stop
	return nil
}

// finish changes the phase to closed.
func (s *Server) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.runs = closed, nil
	close(s.ended)
}

// start assembles and starts the parts. If it fails, it closes everything again.
func (s *Server) start(ctx context.Context) error {
	if err := s.complete(); err != nil {
		return errors.Join(err, s.drain(ctx))
	}
	first := s.lead()
	s.failed = first.app.Failed()
	if first.app.Waiting() {
		return s.startWaiting(ctx, first)
	}
	if err := s.prepare(ctx, ctx, first, app.Parts{Handlers: s.handlers, Listen: s.listens}); err != nil {
		return errors.Join(err, s.drain(ctx))
	}
	return first.app.Start(ctx)
}

// prepare assembles the parts of a generation, up to its start. Pages that are kept open end with running.
func (s *Server) prepare(ctx, running context.Context, g *generation, parts app.Parts) error {
	pages, end := context.WithCancel(running)
	g.end = end
	if err := g.app.Assemble(ctx, parts); err != nil {
		return err
	}
	if s.reloads.cfg.Load != nil {
		if err := g.app.Collect(s.reloads.total, s.reloads.last); err != nil {
			return err
		}
	}
	return s.mountPrivate(ctx, pages, g)
}

// leave keeps everything working for the configured delay, while the process says that it is not ready. A proxy in front then sends
// to other processes before this one closes its port.
func (s *Server) leave() error {
	g := s.lead()
	g.app.Leave()
	if g.settings.DrainDelay <= 0 {
		return nil
	}
	g.log.Info("not ready from now on; the stop begins after the delay", slog.Float64("drain_delay_seconds", g.settings.DrainDelay.Seconds()))
	timer := time.NewTimer(g.settings.DrainDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-s.failed:
		return err
	}
}

// drain stops the App that leads, and the one before if it has not ended yet.
func (s *Server) drain(ctx context.Context) error {
	g := s.lead()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.settings.Drain)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.endRetired(ctx)
	}()
	err := g.app.Stop(ctx)
	<-ended
	if g.end != nil {
		g.end()
	}
	if g.release != nil {
		g.release()
	}
	return err
}

// Close ends Run, if it was called, waits until Run has finished, and frees what [Open] took. Calling Close again
// returns nil. Run returns errors of the stop.
func (s *Server) Close() error {
	s.mu.Lock()
	switch s.phase {
	case opened:
		s.phase = closed
		s.mu.Unlock()
		defer close(s.ended)
		return s.drain(context.Background())
	case running:
		s.stop()
	case closed:
	}
	s.mu.Unlock()
	<-s.ended
	return nil
}

// Deliveries returns the handler that accepts deliveries at /in/<source>.
func (s *Server) Deliveries() http.Handler { return s.lead().app.Deliveries() }

// Admin returns the handler of /healthz, /readyz and /metrics and, once the Server runs, of the API and the console.
func (s *Server) Admin() http.Handler { return s.leading((*app.App).Admin) }

// Ready returns why this process cannot accept and process deliveries now, or nil if it can.
func (s *Server) Ready(ctx context.Context) error { return s.lead().app.Ready(ctx) }

// Gather implements [prometheus.Gatherer] with the metrics that /metrics has.
func (s *Server) Gather() ([]*dto.MetricFamily, error) { return s.lead().app.Gather() }

// Started returns a channel that is closed when the Server accepts deliveries and runs effects.
func (s *Server) Started() <-chan struct{} { return s.started }

// PublicAddr returns the address at which [Server.Serve] accepts deliveries once it has Started, and nil before.
func (s *Server) PublicAddr() net.Addr { return s.lead().app.PublicAddr() }

// AdminAddr returns the address at which [Server.Serve] serves health and metrics once it has Started, and nil before.
func (s *Server) AdminAddr() net.Addr { return s.lead().app.AdminAddr() }
