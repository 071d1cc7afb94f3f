package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers"
)

// Config configures a [Service]. Pool is required.
type Config struct {
	// Pool is for operations that change something. Nothing that accepts deliveries or works on them shares it.
	Pool *pgxpool.Pool

	// Lists is for operations that only read. Its sessions are read-only and have a short statement_timeout. It
	// defaults to Pool.
	Lists *pgxpool.Pool

	// Deciding reads what decisions depend on. It is like Lists and always reads the primary, because Lists may lag. It
	// defaults to Lists.
	Deciding *pgxpool.Pool

	// Freshness returns how old the data of Lists is. It is nil if that is the primary's.
	Freshness func() session.Freshness

	// Plans is for planning replays, which reads many rows. It needs at least three connections and defaults to Pool.
	Plans *pgxpool.Pool

	// Keyring opens sealed data. It is nil if nothing is sealed.
	Keyring *seal.Keyring

	// Archive has the bodies that prune has removed, and takes those that it removes. Nil has none.
	Archive *archive.Archive

	// Settings are the configuration of the process or of the command. It is nil for a command that has only the
	// address of the database. Operations that need the configuration then return a Problem.
	Settings *config.Config

	// Deliver accepts deliveries in this process, for test deliveries. It is nil if the process accepts none.
	Deliver http.Handler

	// Suppressions says how suppressed addresses are stored, if Settings is nil.
	Suppressions config.Suppressions

	// DevURL is the address of the development target, for targets of kind dev.
	DevURL string

	// Logger gets the messages of background work. It defaults to discarding.
	Logger *slog.Logger

	// Catalog contains the known providers. It is asked for them when they are listed. nil is an empty one.
	Catalog providers.Catalog

	// Version is the version of the program.
	Version string

	// Ready returns why the process is not ready now. It is nil if no server answers.
	Ready func(context.Context) error

	// Buffer returns the state of the buffer, or nil without one. It is nil if nobody knows.
	Buffer func(context.Context) *buffer.Status

	// Reload reads the configuration again and applies it. It is nil if the process cannot do that.
	Reload func(ctx context.Context, request ReloadRequest, actor string) (Reloaded, error)

	// CheckDefinition returns the warnings about a source, or as a Problem why it cannot be added to the configuration. The field is
	// nil if there is no configuration.
	CheckDefinition func(ctx context.Context, d config.Definition) (warnings []string, err error)

	// Patient is set by a command, which has no HTTP client waiting for its answer: it waits until a plan is made, and
	// prunes until everything is done.
	Patient bool

	// AskTargets makes a comparison of a run ask the targets about its steps, by the probes and dry runs that the
	// configuration declares. A command does that for its caller; a server never does.
	AskTargets bool

	// Progress, if set, is called during a long operation with what it is doing and how many rows it has done.
	Progress func(doing string, done int64)

	// ListBudget is how long a list is searched before it answers with what it has. 0 is [read.ListBudget].
	ListBudget time.Duration

	// Now defaults to time.Now.
	Now func() time.Time
}

// Service carries out the operations. It is safe for concurrent use.
type Service struct {
	cfg          Config
	lister       *read.Lister
	replays      *replay.Store
	operations   *operation.Store
	suppressions *suppression.Store

	deciding *Service // reads the primary; the Service itself if its lists do
	front    *front   // of a Service for several databases, which has nothing else

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
	if cfg.Deciding == nil {
		cfg.Deciding = cfg.Lists
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
	s, err := newReading(cfg)
	if err != nil {
		return nil, err
	}
	if s.acting, err = newActing(cfg); err != nil {
		return nil, err
	}
	s.deciding = s
	if cfg.Deciding != cfg.Lists {
		current := cfg
		current.Lists = cfg.Deciding
		if s.deciding, err = newReading(current); err != nil {
			return nil, err
		}
		s.deciding.acting, s.deciding.deciding = s.acting, s.deciding
	}
	return s, nil
}

// newReading makes the part of a Service that reads.
func newReading(cfg Config) (*Service, error) {
	s := &Service{cfg: cfg, lister: read.NewLister(cfg.Lists).WithKeyring(cfg.Keyring).WithArchive(cfg.Archive).WithMessages(app.DescribeMessage).WithBudget(cmp.Or(cfg.ListBudget, read.ListBudget))}
	effects, err := app.NewStore(cfg.Lists, cfg.Keyring)
	if err != nil {
		return nil, err
	}
	if s.replays, err = replay.New(replay.Config{Pool: cfg.Pool, Store: effects, ListBudget: cfg.ListBudget}); err != nil {
		return nil, err
	}
	if s.operations, err = operation.New(operation.Config{Pool: cfg.Lists, Keyring: cfg.Keyring, Now: cfg.Now}); err != nil {
		return nil, err
	}
	if s.suppressions, err = suppression.New(suppression.Config{Pool: cfg.Lists, Keyring: cfg.Keyring, ListBudget: cfg.ListBudget, Now: cfg.Now}); err != nil {
		return nil, err
	}
	return s, nil
}
