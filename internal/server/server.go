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

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
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
	app      *app.App
	settings *config.Config
	log      *slog.Logger
	works    bool

	mu       sync.Mutex
	phase    phase
	handlers map[string]app.Handler
	mistakes []error // errors of Handle, which Run returns
	stop     context.CancelFunc
	ended    chan struct{} // closed when everything is closed

	started chan struct{} // closed when the Server serves
}

// Open opens the database as [app.Open] does. The Server accepts and runs nothing before [Server.Run] or
// [Server.Serve]. Call Close, Run or Serve to free the resources.
func Open(ctx context.Context, cfg app.Config) (*Server, error) {
	a, err := app.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Server{
		app: a, settings: cfg.Settings, log: cfg.Logger, works: cfg.Work,
		handlers: map[string]app.Handler{}, ended: make(chan struct{}), started: make(chan struct{}),
	}, nil
}

// Run accepts deliveries through [Server.Deliveries], runs effects, and maintains the tables until ctx ends. Then it
// stops accepting, finishes running work within the configured time, closes everything and returns nil. An error
// describes what prevented it from starting, continuing or finishing. A Server can run only once.
func (s *Server) Run(ctx context.Context) error { return s.run(ctx, false) }

// Serve is like [Server.Run], and listens on the addresses of the configuration. The limits on senders' connections
// apply only here.
func (s *Server) Serve(ctx context.Context) error { return s.run(ctx, true) }

func (s *Server) run(ctx context.Context, listen bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.begin(cancel); err != nil {
		return err
	}
	defer s.finish()
	if err := s.start(ctx, listen); err != nil {
		if ctx.Err() != nil {
			return nil // ctx ended during the start, which was undone
		}
		return err
	}
	close(s.started)
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-s.app.Failed():
		s.log.ErrorContext(ctx, "stopping", slog.Any("error", failure))
	}
	err := s.drain(ctx)
	if err == nil {
		s.log.InfoContext(ctx, "stopped")
	}
	return errors.Join(failure, err)
}

// begin changes the phase from opened to running.
func (s *Server) begin(stop context.CancelFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != opened {
		return fmt.Errorf("running an Inbox: %w", s.phase.refusal())
	}
	s.phase, s.stop = running, stop
	return nil
}

// finish changes the phase to closed.
func (s *Server) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = closed
	close(s.ended)
}

// start assembles and starts the parts. If it fails, it closes everything again.
func (s *Server) start(ctx context.Context, listen bool) error {
	if err := s.complete(); err != nil {
		return errors.Join(err, s.drain(ctx))
	}
	if err := s.app.Assemble(ctx, app.Parts{Handlers: s.handlers, Listen: listen}); err != nil {
		return err
	}
	if err := s.mountPrivate(ctx); err != nil {
		return errors.Join(err, s.drain(ctx))
	}
	return s.app.Start(ctx)
}

func (s *Server) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settings.Drain)
	defer cancel()
	return s.app.Stop(ctx)
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
func (s *Server) Deliveries() http.Handler { return s.app.Deliveries() }

// Admin returns the handler of /healthz, /readyz and /metrics and, once the Server runs, of the API and the console.
func (s *Server) Admin() http.Handler { return s.app.Admin() }

// Ready returns why this process cannot accept and process deliveries now, or nil if it can.
func (s *Server) Ready(ctx context.Context) error { return s.app.Ready(ctx) }

// Started returns a channel that is closed when the Server accepts deliveries and runs effects.
func (s *Server) Started() <-chan struct{} { return s.started }

// PublicAddr returns the address at which [Server.Serve] accepts deliveries once it has Started, and nil before.
func (s *Server) PublicAddr() net.Addr { return s.app.PublicAddr() }

// AdminAddr returns the address at which [Server.Serve] serves health and metrics once it has Started, and nil before.
func (s *Server) AdminAddr() net.Addr { return s.app.AdminAddr() }
