// Package app connects the parts of Oncegate to one process. Package oncegate, which programs use, is
// built on it, and so are the database commands of the command line.
//
// [Open] opens the database, [App.Assemble] makes the parts, [App.Start] starts them and [App.Stop]
// drains them. [NewJudge], [Reverify], [AdmitConflict], [CheckRegistration] and [OrderChanges] are for
// commands. Nothing else in the module makes these parts for a process.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/admin"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/migrations"
)

// Config configures an [App]. Settings and Logger are required.
type Config struct {
	Settings *config.Config
	Logger   *slog.Logger

	// LogFolds says that Logger itself limits repeated messages.
	LogFolds bool

	// Receive accepts deliveries, Work carries out effects. At least one of them is required.
	Receive, Work bool

	// DevURL is the address of the development target, for targets of kind dev.
	DevURL string

	// Version is shown by the metric oncegate_build_info.
	Version string

	// Migrate brings the schema to the version of this program before the schema is checked.
	Migrate bool

	// Metrics, if set, also gets the metrics of this process, without the metrics of Go and of the
	// operating system's process.
	Metrics prometheus.Registerer

	// Uncounted disables the counts by minute, so that a benchmark can measure their cost.
	Uncounted bool

	// Now is the machine's clock. It defaults to time.Now.
	Now func() time.Time

	// Tests replace the receiver's clock and the source of the providers' keys.
	receiveNow func() time.Time
	keysOf     func(source string) outside
}

// App is one running process.
type App struct {
	cfg      Config
	settings *config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *mirror // where metrics are registered

	node  string
	fleet *node.Node // this process among the others
	clock *inbox.Clock
	fit   schemaFit

	history databaseHistory

	suppressions        *suppression.Store
	suppressedAddresses *prometheus.CounterVec

	adminPool, gatePool, workPool, queuePool, lists *pgxpool.Pool

	sessions session.Guard     // of all pools
	standbys *session.Standbys // nil of a process that works on nothing
	tables   int64             // in which this process has registered its sources
	commits  *gate.CommitProbe // set when all parts are made

	keys       *seal.Keyring          // nil if nothing is sealed
	differing  string                 // which live processes have another configuration
	keyTrouble atomic.Pointer[string] // how they conflict with the keys of other processes
	work       *jobs.Client           // nil without the role

	sources map[string]registry.Registered

	outcomes   *operation.Store         // nil if no source needs it
	agents     *operation.AgentSessions // likewise
	operations map[string]bool          // by source

	gate   *gate.Gate
	rollup *rollup.Recorder // records what the console shows about this process
	starts []step           // in order

	series     map[int32]inbox.Series              // of the ordered routes, by id
	orderStats []func() map[int32]inbox.OrderStats // what the gate and the store have counted
	public     *http.Server
	private    *admin.Admin
	admin      *http.Server

	connections *receiver.Connections // of the public listener

	parts  Parts
	checks []admin.Check
	door   *door // for deliveries, where the program listens

	receiver http.Handler // what takes them; nil without the role

	publicAddr, adminAddr net.Addr

	// installation is the secret under which labels and the keys of recipes are hashed; zero for none.
	installation inbox.InstallationSecret

	// unasked says that the database is not asked for anything: the process is only checked.
	unasked bool

	started, draining atomic.Bool
	failed            chan error
	cleanups          cleanups
}

// step is something that Start starts or Stop undoes.
type step struct {
	name string
	run  func(ctx context.Context) error
}

// Parts are what a process consists of in addition to its configuration.
type Parts struct {
	// Handlers are the Go functions that carry out the effects of routes without a
	// target, by the route's name.
	Handlers map[string]Handler

	// Listen lets the process listen on the addresses of the configuration. Otherwise the program
	// mounts [App.Deliveries] and [App.Admin] in its own servers.
	Listen bool
}

// New opens the database and makes every part of a process that listens, but starts neither the
// listeners nor the work. If it fails, it closes what it opened.
func New(ctx context.Context, cfg Config) (*App, error) { return build(ctx, cfg, false) }

// Check builds the process as [New] does and takes it apart again. It does not query the database, so
// it misses only what depends on the database. If you add something to New that can fail, add it to
// Check.
func Check(ctx context.Context, cfg Config) error {
	a, err := build(ctx, cfg, true)
	if err != nil {
		return err
	}
	return a.cleanups.run(context.WithoutCancel(ctx))
}

func build(ctx context.Context, cfg Config, unasked bool) (*App, error) {
	a, err := open(ctx, cfg, unasked)
	if err != nil {
		return nil, err
	}
	if err := a.Assemble(ctx, Parts{Listen: true}); err != nil {
		return nil, err
	}
	return a, nil
}

// Open opens the pool that everything needs, migrates the schema if Config.Migrate is set, and refuses
// a database that does not fit. If it fails, it closes what it opened.
func Open(ctx context.Context, cfg Config) (*App, error) { return open(ctx, cfg, false) }

func open(ctx context.Context, cfg Config, unasked bool) (_ *App, err error) {
	if cfg.Settings == nil || cfg.Logger == nil {
		return nil, errors.New("app: Settings and Logger are required")
	}
	if !cfg.Receive && !cfg.Work {
		return nil, errors.New("app: neither role, receive or work, is given")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Now = failingNow(cfg.Now)
	registry := newRegistry()
	a := &App{
		cfg: cfg, settings: cfg.Settings, log: cfg.Logger, registry: registry, metrics: &mirror{own: registry, theirs: cfg.Metrics},
		node: nodeName(), failed: make(chan error, 2), unasked: unasked, door: newDoor(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.cleanups.run(context.WithoutCancel(ctx)))
		}
	}()
	a.cleanups.add("metrics", func(context.Context) error { a.metrics.withdraw(); return nil })
	if err := a.collect(newBuildInfo(cfg.Version)); err != nil {
		return nil, err
	}
	if err := a.openKeyring(ctx); err != nil {
		return nil, err
	}
	if cfg.Migrate && !unasked {
		if err := migrations.Up(ctx, a.settings.Database.URL, a.settings.Database.Schema); err != nil {
			return nil, err
		}
	}
	if err := a.openDatabase(ctx); err != nil {
		return nil, err
	}
	if err := a.openListPool(ctx); err != nil {
		return nil, err
	}
	if err := a.makeAdmin(); err != nil {
		return nil, err
	}
	return a, nil
}

// Assemble writes the sources and routes and makes every part, in the order in which they need each
// other. Call it once. If it fails, it closes what was opened.
func (a *App) Assemble(ctx context.Context, parts Parts) (err error) {
	a.parts = parts
	if !parts.Listen { // the program's own server chooses its names
		a.private.AnswerAnyHost()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.cleanups.run(context.WithoutCancel(ctx)))
		}
	}()
	a.watchSchema()
	a.watchHistory()
	if err := a.enlist(ctx); err != nil {
		return err
	}
	if err := a.register(ctx); err != nil {
		return err
	}
	if err := a.makeRollup(); err != nil {
		return err
	}
	if err := a.makeOperations(); err != nil {
		return err
	}
	if a.cfg.Work {
		if err := a.makeWork(); err != nil {
			return err
		}
	}
	if a.cfg.Receive {
		if err := a.makeReceive(); err != nil {
			return err
		}
	}
	if a.cfg.Work {
		if err := a.makeRelay(); err != nil {
			return err
		}
		if err := a.makeReconcile(); err != nil {
			return err
		}
	}
	if err := a.makeOrderMetrics(); err != nil {
		return err
	}
	return a.makeCommitProbe()
}

// Start listens if Parts.Listen is set, and starts all parts in the order in which they need each
// other. It binds the listeners first, so that it finds a port that is in use before any part works.
// If it fails, it stops what it started.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}()
	var adminListener, publicListener net.Listener
	if a.parts.Listen {
		if adminListener, err = a.listen(ctx, "admin", a.settings.Listen.Admin, &a.adminAddr); err != nil {
			return err
		}
		if a.public != nil {
			if publicListener, err = a.listen(ctx, "public", a.settings.Listen.Public, &a.publicAddr); err != nil {
				return err
			}
		}
		a.serve("admin listener", a.admin, adminListener)
	}
	for _, s := range a.starts {
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", s.name, err)
		}
	}
	switch {
	case a.public != nil:
		a.serve("public listener", a.public, a.connections.Listen(publicListener))
	case a.receiver != nil:
		a.cleanups.add("deliveries", a.door.shut)
		a.door.open(a.receiver)
	}
	if a.receiver != nil && a.outcomes != nil {
		// This runs first in Stop, because callers that wait for an operation must not delay the
		// listener.
		a.cleanups.add("waiting callers", func(context.Context) error { a.outcomes.Release(); return nil })
	}
	a.started.Store(true)
	return nil
}

// Failed returns a channel that receives an error when a part has ended unexpectedly. The process
// should stop then.
func (a *App) Failed() <-chan error { return a.failed }

// Stop drains in the reverse order: it stops accepting, finishes the gate and the effects under way,
// and closes the pools. A second call does nothing.
func (a *App) Stop(ctx context.Context) error {
	a.draining.Store(true)
	return a.cleanups.run(ctx)
}

// nodeName returns a name that distinguishes the processes of one database in attempts.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}
