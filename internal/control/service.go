package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers"
)

// Config configures a [Service]. Pool is required.
type Config struct {
	// Pool is for what changes something. It is shared with nothing that takes or works on deliveries.
	Pool *pgxpool.Pool

	// Lists is for what only reads; its sessions are read-only and have a short statement_timeout. It defaults to Pool.
	Lists *pgxpool.Pool

	// Plans is for replays that are planned, which read much: they need at least three connections. It defaults to Pool.
	Plans *pgxpool.Pool

	// Keyring opens what is sealed; nil where nothing is.
	Keyring *seal.Keyring

	// Settings are the configuration of the process or of the command. It is nil for a command that has only the address of
	// the database: operations that need more say so.
	Settings *config.Config

	// Deliver takes deliveries of this process, for test deliveries; nil where it takes none.
	Deliver http.Handler

	// Suppressions says how suppressed addresses are kept, where Settings are nil.
	Suppressions config.Suppressions

	// DevURL is the address of the development target, for targets of kind dev.
	DevURL string

	// Logger gets what goes on behind answers. It defaults to discarding.
	Logger *slog.Logger

	// Catalog are the providers that are known, by name.
	Catalog map[string]*providers.Provider

	// Version is that of the program.
	Version string

	// Ready says why the process cannot keep its promise now; nil where no server answers.
	Ready func(context.Context) error

	// Patient says that nobody waits for the answer to a request of HTTP, as a command does not: a plan is waited for until it
	// is made, and prune goes on until it is done.
	Patient bool

	// AskTargets has a comparison of a run ask the targets about its steps, by the probes and dry runs that the configuration
	// declares. A command does that for the person who calls it; a server never does.
	AskTargets bool

	// Progress, if set, is told how far a long operation is, as it goes on: what it does, and how many it has done.
	Progress func(doing string, done int64)

	// ListBudget is how long a list is searched before it answers with what it has; 0 is [inbox.ListBudget].
	ListBudget time.Duration

	// Now defaults to time.Now.
	Now func() time.Time
}

// Service carries out the operations. It is safe for use by several goroutines at once.
type Service struct {
	cfg          Config
	lister       *inbox.Lister
	replays      *replay.Store
	operations   *inbox.Operations
	suppressions *suppression.Store

	acting
}

// NewService makes a Service.
func NewService(cfg Config) (*Service, error) {
	if cfg.Pool == nil {
		return nil, errors.New("control: Pool is required")
	}
	if cfg.Lists == nil {
		cfg.Lists = cfg.Pool
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Plans == nil {
		cfg.Plans = cfg.Pool
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, int64) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, lister: inbox.NewLister(cfg.Lists).WithKeyring(cfg.Keyring).WithMessages(app.DescribeMessage).WithBudget(cmp.Or(cfg.ListBudget, inbox.ListBudget))}
	effects, err := app.NewStore(cfg.Lists, cfg.Keyring)
	if err != nil {
		return nil, err
	}
	if s.replays, err = replay.New(replay.Config{Pool: cfg.Pool, Store: effects, ListBudget: cfg.ListBudget}); err != nil {
		return nil, err
	}
	if s.operations, err = inbox.NewOperations(inbox.OperationsConfig{Pool: cfg.Lists, Keyring: cfg.Keyring, Now: cfg.Now}); err != nil {
		return nil, err
	}
	if s.suppressions, err = suppression.New(suppression.Config{Pool: cfg.Lists, Keyring: cfg.Keyring, ListBudget: cfg.ListBudget, Now: cfg.Now}); err != nil {
		return nil, err
	}
	s.acting, err = newActing(cfg)
	return s, err
}
