package oncegate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/embedded"
	"github.com/oncegate/oncegate/internal/server"
	"github.com/oncegate/oncegate/migrations"
)

// ErrClosed is wrapped by the errors of an [Inbox] after Close, or after Run has ended.
var ErrClosed = server.ErrClosed

// ErrRunning is wrapped by the errors of methods of [Inbox] that must be called before Run, if Run
// has already been called.
var ErrRunning = server.ErrRunning

// Inbox accepts deliveries and runs their effects. Any number of Inboxes can share one database.
// [Open] returns an Inbox. It is safe for concurrent use.
type Inbox struct {
	server   *server.Server
	settings *config.Config
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
	s, err := server.Open(ctx, resolved)
	switch {
	case errors.Is(err, migrations.ErrSchema):
		return nil, fmt.Errorf("oncegate: %w; or set Config.Migrate", err)
	case err != nil:
		return nil, err
	}
	for _, warning := range resolved.Settings.Warnings {
		resolved.Logger.WarnContext(ctx, "configuration", slog.String("warning", warning))
	}
	return &Inbox{server: s, settings: resolved.Settings}, nil
}

// Run accepts deliveries through [Inbox.Handler], runs effects, and maintains the tables
// (partitions, overdue effects, retention, emitted events) until ctx ends. Then it stops accepting,
// finishes running work within Config.Drain, closes everything and returns nil. An error describes
// what prevented it from starting, continuing or finishing, such as a route without a handler.
// None of these errors loses an acknowledged event. An Inbox can run only once.
func (i *Inbox) Run(ctx context.Context) error { return i.server.Run(ctx) }

// Close ends Run, if it was called, waits until Run has finished, and frees what [Open] took.
// Calling Close again returns nil. Run returns errors of the stop.
func (i *Inbox) Close() error { return i.server.Close() }

// Handler accepts deliveries at /in/<source>. Mount it at /in/, or below another path with
// [http.StripPrefix]. Before Run, after the end of Run's context, and with the role [Work], it
// answers 503 with Retry-After, so that senders deliver again. The program's server must allow a
// sender at least 75 s for the whole exchange (ReadTimeout and WriteTimeout) and must not change
// the body.
func (i *Inbox) Handler() http.Handler { return i.server.Deliveries() }

// Admin serves /healthz, /readyz, /metrics and, once Run has been called, the API at /api/v1 and
// the console at /. Never mount it where senders can reach it.
func (i *Inbox) Admin() http.Handler { return i.server.Admin() }

// Ready returns why this process cannot accept and process deliveries now, one line for each
// reason, without secrets. It returns nil if the process can. It queries the database, so give ctx
// a deadline.
func (i *Inbox) Ready(ctx context.Context) error { return i.server.Ready(ctx) }

// Started returns a channel that is closed when Run accepts deliveries and runs effects.
func (i *Inbox) Started() <-chan struct{} { return i.server.Started() }

var _ = func() any { // package oncegatetest signs deliveries with the secrets that the program configured
	embedded.Settings = func(inbox any) *config.Config { return inbox.(*Inbox).settings }
	return nil
}()

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
