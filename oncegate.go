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

// ErrClosed is wrapped by what an [Inbox] returns after Close, or after its Run has ended.
var ErrClosed = errors.New("the Inbox is closed: open another one")

// ErrRunning is wrapped by what an [Inbox] returns for what must come before Run.
var ErrRunning = errors.New("the Inbox runs already")

// phase is how far the life of an Inbox is.
type phase int

const (
	opened phase = iota
	running
	closed
)

// refusal is why something that needs an Inbox that is only opened cannot be done.
func (p phase) refusal() error {
	if p == closed {
		return ErrClosed
	}
	return ErrRunning
}

// Inbox takes deliveries and carries out their effects, beside any number of others on the
// same database. [Open] makes one. Its methods may be called by several goroutines at once.
type Inbox struct {
	app      *app.App
	settings *config.Config
	log      *slog.Logger
	works    bool

	mu       sync.Mutex
	phase    phase
	handlers map[string]app.Handler
	mistakes []error // of Handle, for Run
	stop     context.CancelFunc
	ended    chan struct{} // closed when everything is closed

	started chan struct{} // closed when it serves
}

// Open checks the configuration, opens the database, migrates it if Config.Migrate asks for
// that, and refuses a schema that this program must not run on. Nothing is taken or worked on
// before [Inbox.Run]. The error names everything that is wrong with the configuration, one
// line each. Close or Run frees what Open took.
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

// Run takes deliveries by [Inbox.Handler], carries out effects, and maintains the tables (partitions,
// overdue effects, retention, emitted events) until ctx ends. Then it takes no more, finishes what
// it has begun within Config.Drain, closes everything and returns nil. An error says what
// kept it from starting, from going on or from finishing; a route without a handler is one.
// What was acknowledged is not lost by any of them. An Inbox runs once.
func (i *Inbox) Run(ctx context.Context) error { return i.run(ctx, false) }

// Serve is [Inbox.Run] for a program that leaves the listening to Oncegate: deliveries at
// listen.public of the configuration file, or :8080; health and metrics at listen.admin, or
// 127.0.0.1:8081. The limits on connections of senders hold only here.
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
			return nil // the start was broken off, and is undone
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

// begin takes the Inbox from opened to running.
func (i *Inbox) begin(stop context.CancelFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != opened {
		return fmt.Errorf("running an Inbox: %w", i.phase.refusal())
	}
	i.phase, i.stop = running, stop
	return nil
}

// finish takes it to closed.
func (i *Inbox) finish() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.phase = closed
	close(i.ended)
}

// start makes the parts and sets them going. What it opened is closed again if it fails.
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

// Close ends Run, if it was called, waits until it has finished, and frees what [Open] took. It
// tolerates being called again, and returns nil then; what went wrong with a stop is Run's to
// return.
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

// Handler takes deliveries at /in/<source>: mount it at /in/, or behind [http.StripPrefix]. Before
// Run and from the end of its context on it answers 503 with Retry-After, so that senders deliver
// again, and so it does with the role [Work]. The program's server must allow a sender at least
// 75 s for the whole exchange (ReadTimeout and WriteTimeout) and must not change the body.
func (i *Inbox) Handler() http.Handler { return i.app.Deliveries() }

// Admin serves /healthz, /readyz, /metrics and, from Run on, the API at /api/v1 and the console at /. Never mount it where senders can reach
// it.
func (i *Inbox) Admin() http.Handler { return i.app.Admin() }

// Ready returns why this process cannot take and carry out what arrives now, one line for each
// reason, without secrets; nil if it can. It asks the database, so bound it by ctx.
func (i *Inbox) Ready(ctx context.Context) error { return i.app.Ready(ctx) }

// Started is closed when Run or Serve takes deliveries and works.
func (i *Inbox) Started() <-chan struct{} { return i.started }

// PublicAddr and AdminAddr are where [Inbox.Serve] listens, once it has Started; nil otherwise.
func (i *Inbox) PublicAddr() net.Addr { return i.app.PublicAddr() }

// AdminAddr is where [Inbox.Serve] answers about health and metrics, once it has Started.
func (i *Inbox) AdminAddr() net.Addr { return i.app.AdminAddr() }

// version is the one that the program was built with.
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
