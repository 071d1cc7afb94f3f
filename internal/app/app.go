// Package app connects the parts of Oncegate to one process. Package oncegate, which programs use, is
// built on it, and so are the database commands of the command line.
//
// [Open] opens the database, [App.Assemble] makes the parts, [App.Start] starts them and [App.Stop]
// drains them. [NewJudge], [Reverify], [AdmitConflict], [CheckRegistration] and [OrderChanges] are for
// commands. Nothing else in the module makes these parts for a process.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/admin"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/tracing"
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

	// Traces, if set, makes the spans of deliveries and attempts.
	Traces trace.TracerProvider

	// Wait lets a process that receives start while the database is away, if it has a buffer: see [OpenWaiting].
	Wait bool

	// Patience is how long each step of a start waits for locks of tables. It defaults to a minute.
	Patience time.Duration

	// Uncounted disables the counts by minute, so that a benchmark can measure their cost.
	Uncounted bool

	// Now is the machine's clock. It defaults to time.Now.
	Now func() time.Time

	// Tests replace the receiver's clock, the source of the providers' keys and the connections to brokers.
	receiveNow func() time.Time
	keysOf     func(source string) outside
	consumerOf func(source string, c broker.Consumer) broker.Consumer
}

// App is one running process.
type App struct {
	cfg      Config
	settings *config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *mirror // where metrics are registered
	metered  metered // the sources with series of their own

	node  string
	fleet *node.Node // this process among the others
	clock *inbox.Clock

	pauses *pause.Watch
	fit    schemaFit

	history databaseHistory

	suppressions        *suppression.Store
	suppressedAddresses *prometheus.CounterVec

	adminPool, gatePool, workPool, queuePool, lists *pgxpool.Pool

	deciding *pgxpool.Pool    // nil if the lists are read by database.url
	dataAge  *session.DataAge // likewise

	sessions session.Guard     // of all pools
	standbys *session.Standbys // nil of a process that works on nothing
	tables   int64             // in which this process has registered its sources
	commits  *gate.CommitProbe // set when all parts are made

	keys       *seal.Keyring // nil if nothing is sealed
	archive    *archive.Archive
	differing  string                 // which live processes have another configuration
	keyTrouble atomic.Pointer[string] // how they conflict with the keys of other processes
	work       *jobs.Client           // nil without the role

	sources map[string]registry.Registered

	outcomes   *operation.Store         // nil if no source needs it
	agents     *operation.AgentSessions // likewise
	operations map[string]bool          // by source

	gate   *gate.Gate
	rollup *rollup.Recorder            // records what the console shows about this process
	starts []step                      // in order
	chores []func(ctx context.Context) // periodic work, in the order in which it was started

	series     map[int32]inbox.Series              // of the ordered routes, by id
	orderStats []func() map[int32]inbox.OrderStats // what the gate and the store have counted
	private    *admin.Admin

	parts     Parts
	checks    []admin.Check
	door      *door      // for deliveries
	adminDoor *door      // for requests of the private listener, where the process listens
	listeners *listeners // nil where the program listens

	consumers []*consumer // of the sources that consume from brokers

	buffered *buffered  // nil without a buffer
	waiting  *startNote // of a process that has started without the database; nil otherwise

	taker    *receiver.Receiver // nil without the role
	receiver http.Handler       // what takes deliveries; nil without the role

	tracer *tracing.Tracer // nil if nothing is traced

	// installation is the secret under which labels and the keys of recipes are hashed; zero for none.
	installation inbox.InstallationSecret

	// unasked says that the database is not asked for anything: the process is only checked.
	unasked bool

	started, draining, retired atomic.Bool
	failed                     chan error
	cleanups                   cleanups
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

	// After is the App of the same process whose place this one takes. If it is set, Start takes over the listeners of
	// After when everything else works, and changes nothing about After if it fails. The caller stops an App whose Start
	// has failed, and retires After if it has not.
	After *App
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
	cfg.Patience = cmp.Or(cfg.Patience, startPatience)
	cfg.Now = failingNow(cfg.Now)
	registry := newRegistry()
	a := &App{
		cfg: cfg, settings: cfg.Settings, log: cfg.Logger, registry: registry, metrics: &mirror{own: registry, theirs: cfg.Metrics},
		node: NodeName(), failed: make(chan error, 2), unasked: unasked, door: newDoor(), adminDoor: newDoor(),
	}
	if cfg.Traces != nil {
		a.tracer = tracing.New(cfg.Traces, cfg.Version, cfg.Settings.Targets)
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
	if err := a.makeArchive(); err != nil {
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
	switch {
	case !parts.Listen: // the program's own server chooses its names
		a.private.AnswerAnyHost()
	case parts.After != nil:
		a.listeners = parts.After.listeners
	default:
		a.listeners = newListeners(a)
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
	if err := a.watchPauses(ctx); err != nil {
		return err
	}
	a.metered = a.chooseMetered(ctx)
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
	if err := a.makeReadyMetric(); err != nil {
		return err
	}
	if err := a.makeCommitProbe(); err != nil {
		return err
	}
	if a.waiting != nil {
		a.onlyWaiting()
	}
	return nil
}

// Start listens if Parts.Listen is set, and starts all parts in the order in which they need each
// other. It binds the listeners first, so that it finds a port that is in use before any part works.
// If it fails, it stops what it started, unless Parts.After is set.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil && a.parts.After == nil {
			err = errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}()
	startPublic := func() {
		if a.receiver != nil {
			a.cleanups.add("deliveries", a.door.shut)
			a.door.open(a.receiver)
		}
	}
	if a.listeners != nil {
		if startPublic, err = a.startAdmin(ctx); err != nil {
			return err
		}
	}
	if err := a.startParts(ctx); err != nil {
		return err
	}
	startPublic()
	if a.receiver != nil && a.outcomes != nil {
		// This runs first in Stop, because callers that wait for an operation must not delay the
		// listener. A retired App lets them wait.
		a.cleanups.add("waiting callers", func(context.Context) error {
			if !a.retired.Load() {
				a.ReleaseCallers()
			}
			return nil
		})
	}
	a.started.Store(true)
	if a.listeners != nil {
		a.listeners.lead.Store(a)
	}
	a.parts.After = nil // or no App would ever be forgotten
	return nil
}

// ReleaseCallers answers callers that wait for an operation, and from now on every one at once, because the process stops.
func (a *App) ReleaseCallers() {
	if a.outcomes != nil {
		a.outcomes.Release()
	}
}

// startParts makes the steps of the start. An App that follows another one starts to carry out effects and to
// consume last, when everything else is ready, so that a configuration that is not applied has no effects.
func (a *App) startParts(ctx context.Context) error {
	steps := a.starts
	if a.parts.After != nil {
		var last []step
		steps = nil
		for _, s := range a.starts {
			if s.name == jobsStep || s.name == consumersStep || s.name == bufferStep {
				last = append(last, s)
			} else {
				steps = append(steps, s)
			}
		}
		steps = append(append(steps, step{name: "being ready", run: func(ctx context.Context) error {
			a.started.Store(true)
			return a.awaitReady(ctx)
		}}), last...)
	}
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", s.name, err)
		}
	}
	return nil
}

// Failed returns a channel that receives an error when a part has ended unexpectedly. The process
// should stop then.
func (a *App) Failed() <-chan error { return a.failed }

// Leave makes /readyz say that this process stops, while everything still works. Answers on the public listener ask the peer to close
// its connection, so that a proxy does not keep one whose end it could meet with its next request.
func (a *App) Leave() { a.draining.Store(true) }

// leaving asks the peers of a process that stops to close their connections.
func (a *App) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Stop drains in the reverse order: it stops accepting, finishes the gate and the effects under way,
// and closes the pools. A second call does nothing.
func (a *App) Stop(ctx context.Context) error {
	a.draining.Store(true)
	return a.cleanups.run(ctx)
}

// NodeName returns a name that distinguishes the processes of one database in attempts.
func NodeName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}
