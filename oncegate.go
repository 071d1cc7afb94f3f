package oncegate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/migrations"
)

// ErrClosed is wrapped by the errors of an [Inbox] after Close, or after Run has ended.
var ErrClosed = errors.New("the Inbox is closed: open another one")

// ErrRunning is wrapped by the errors of methods of [Inbox] that must be called before Run, if Run
// has already been called.
var ErrRunning = errors.New("the Inbox runs already")

// phase is the state of an Inbox in its life cycle.
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

// Inbox accepts deliveries and runs their effects. Any number of Inboxes can share one database.
// [Open] returns an Inbox. It is safe for concurrent use.
type Inbox struct {
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

	started chan struct{} // closed when the Inbox serves
}

// Open checks the configuration, opens the database, migrates it if Config.Migrate is set, and
// returns an error for a schema on which this program must not run. The Inbox accepts and runs
// nothing before [Inbox.Run]. The error lists every problem of the configuration, one per line.
// Call Close or Run to free the resources.
func Open(ctx context.Context, cfg Config) (*Inbox, error) {
	resolved, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("oncegate: %w", err)
	}
	a, err := app.Open(ctx, resolved)
	switch {
	case errors.Is(err, migrations.ErrSchema) && !cfg.binary:
		return nil, fmt.Errorf("oncegate: %w; or set Config.Migrate", err)
	case err != nil:
		return nil, err
	}
	if !cfg.binary {
		for _, warning := range resolved.Settings.Warnings {
			resolved.Logger.WarnContext(ctx, "configuration", slog.String("warning", warning))
		}
	}
	return &Inbox{
		app: a, settings: resolved.Settings, log: resolved.Logger, works: resolved.Work,
		handlers: map[string]app.Handler{}, ended: make(chan struct{}), started: make(chan struct{}),
	}, nil
}

// Run accepts deliveries through [Inbox.Handler], runs effects, and maintains the tables
// (partitions, overdue effects, retention, emitted events) until ctx ends. Then it stops accepting,
// finishes running work within Config.Drain, closes everything and returns nil. An error describes
// what prevented it from starting, continuing or finishing, such as a route without a handler.
// None of these errors loses an acknowledged event. An Inbox can run only once.
func (i *Inbox) Run(ctx context.Context) error { return i.run(ctx, false) }

// Serve is like [Inbox.Run] for a program that does not have its own server. It accepts deliveries
// at listen.public of the configuration file, or :8080, and serves health and metrics at
// listen.admin, or 127.0.0.1:8081. The limits on senders' connections apply only here.
func (i *Inbox) Serve(ctx context.Context) error { return i.run(ctx, true) }

func (i *Inbox) run(ctx context.Context, listen bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := i.begin(cancel); err != nil {
		return err
	}
	defer i.finish()
	if err := i.start(ctx, listen); err != nil {
		if ctx.Err() != nil {
			return nil // ctx ended during the start, which was undone
		}
		return err
	}
	close(i.started)
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-i.app.Failed():
		i.log.ErrorContext(ctx, "stopping", slog.Any("error", failure))
	}
	err := i.drain(ctx)
	if err == nil {
		i.log.InfoContext(ctx, "stopped")
	}
	return errors.Join(failure, err)
}

// begin changes the phase from opened to running.
func (i *Inbox) begin(stop context.CancelFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != opened {
		return fmt.Errorf("running an Inbox: %w", i.phase.refusal())
	}
	i.phase, i.stop = running, stop
	return nil
}

// finish changes the phase to closed.
func (i *Inbox) finish() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.phase = closed
	close(i.ended)
}

// start assembles and starts the parts. If it fails, it closes everything again.
func (i *Inbox) start(ctx context.Context, listen bool) error {
	if err := i.complete(); err != nil {
		return errors.Join(err, i.drain(ctx))
	}
	if err := i.app.Assemble(ctx, app.Parts{Handlers: i.handlers, Listen: listen}); err != nil {
		return err
	}
	if err := i.mountPrivate(ctx); err != nil {
		return errors.Join(err, i.drain(ctx))
	}
	return i.app.Start(ctx)
}

func (i *Inbox) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.settings.Drain)
	defer cancel()
	return i.app.Stop(ctx)
}

// Close ends Run, if it was called, waits until Run has finished, and frees what [Open] took.
// Calling Close again returns nil. Run returns errors of the stop.
func (i *Inbox) Close() error {
	i.mu.Lock()
	switch i.phase {
	case opened:
		i.phase = closed
		i.mu.Unlock()
		defer close(i.ended)
		return i.drain(context.Background())
	case running:
		i.stop()
	case closed:
	}
	i.mu.Unlock()
	<-i.ended
	return nil
}

// Handler accepts deliveries at /in/<source>. Mount it at /in/, or below another path with
// [http.StripPrefix]. Before Run, after the end of Run's context, and with the role [Work], it
// answers 503 with Retry-After, so that senders deliver again. The program's server must allow a
// sender at least 75 s for the whole exchange (ReadTimeout and WriteTimeout) and must not change
// the body.
func (i *Inbox) Handler() http.Handler { return i.app.Deliveries() }

// Admin serves /healthz, /readyz, /metrics and, once Run has been called, the API at /api/v1 and
// the console at /. Never mount it where senders can reach it.
func (i *Inbox) Admin() http.Handler { return i.app.Admin() }

// Ready returns why this process cannot accept and process deliveries now, one line for each
// reason, without secrets. It returns nil if the process can. It queries the database, so give ctx
// a deadline.
func (i *Inbox) Ready(ctx context.Context) error { return i.app.Ready(ctx) }

// Started returns a channel that is closed when Run or Serve accepts deliveries and runs effects.
func (i *Inbox) Started() <-chan struct{} { return i.started }

// PublicAddr returns the address at which [Inbox.Serve] accepts deliveries once it has Started, and
// nil before.
func (i *Inbox) PublicAddr() net.Addr { return i.app.PublicAddr() }

// AdminAddr returns the address at which [Inbox.Serve] serves health and metrics once it has
// Started, and nil before.
func (i *Inbox) AdminAddr() net.Addr { return i.app.AdminAddr() }

// version returns the module version with which the program was built.
func version() string {
	const module = "github.com/oncegate/oncegate"
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}
