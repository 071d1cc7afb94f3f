package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate/conflict"
	"github.com/oncegate/oncegate/inbox/seal"
)

// ErrOverloaded is returned by [Gate.Accept] when the queue or its byte budget
// is full. Nothing was recorded; the sender is asked to come back soon.
var ErrOverloaded = errors.New("gate is overloaded")

// ErrUnavailable is wrapped by what [Gate.Accept] returns when the delivery was
// not recorded, or may have been recorded without our knowing. The sender is
// asked to deliver again: if it was recorded, that will be a duplicate.
var ErrUnavailable = errors.New("gate is unavailable")

// ErrDelivery is wrapped, together with [ErrUnavailable], if the cause is the delivery itself, such as a value that cannot be
// stored or the lock of its row. Other deliveries can be recorded meanwhile.
var ErrDelivery = errors.New("the delivery cannot be recorded")

// errDelivery reads as ErrUnavailable alone, because its text names the cause.
var errDelivery error = deliveryError{}

type deliveryError struct{}

// Error implements error.
func (deliveryError) Error() string { return ErrUnavailable.Error() }

// Is makes it both errors.
func (deliveryError) Is(target error) bool { return target == ErrUnavailable || target == ErrDelivery }

var errStopping = fmt.Errorf("%w: it is stopping", ErrUnavailable)

// Conn is what the gate needs of a database connection.
type Conn interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	// Warned reports, once, whether the server warned (SQLSTATE 01000) since the
	// last call: a COMMIT whose wait for a standby ended early says so.
	Warned() bool
	// Release returns the connection to its pool. If broken is true, it closes the connection instead.
	Release(broken bool)
}

// Acquire gets a connection. Tests put faults between the gate and the server
// through it.
type Acquire func(ctx context.Context) (Conn, error)

// Conflicts decides about events whose key was recorded with other bytes. The gate calls it after the commit. [conflict.Settler]
// is one.
type Conflicts interface {
	// Settle makes out a conflict, or leaves it a duplicate.
	Settle(ctx context.Context, p *conflict.Payload, out *inbox.ItemReceipt) error

	// Displaced counts the kept payloads that made room for newer ones.
	Displaced() uint64
}

// Config configures a [Gate]. Pool, Enqueuer and Clock are required.
type Config struct {
	// Pool is the gate's own pool, opened as [session.PoolGate], so that no other load can
	// starve it. It needs Flushers connections for each of Durabilities and two more for conflicts.
	Pool *pgxpool.Pool

	// Durabilities are those that sources may have; none means [inbox.DurabilityServer] alone. The sessions of Pool must commit with
	// the strictest of them, so that nothing else that the gate writes is weaker. Deliveries of one durability are
	// committed in groups of their own, so that one that waits for a standby delays none that does not.
	Durabilities []inbox.Durability

	// Acquire replaces Pool as the source of connections, in tests; nil uses Pool.
	Acquire Acquire

	Enqueuer inbox.Enqueuer
	Clock    *inbox.Clock

	// Keyring seals bodies and headers before they are stored. nil stores them in plain.
	Keyring *seal.Keyring

	// Installation is the secret under which labels and hashes of content are stored. Its zero value stores labels in plain and
	// hashes without a key. If there is a keyring, set it.
	Installation inbox.InstallationSecret

	// Labelled, if set, is called for each commit that wrote labels: [labels.Indexer.Wake]. It must not wait.
	Labelled func()

	// Counted, if set, is called for each delivery with the outcomes of its events, also for one that failed in part:
	// its recorded events have an outcome. at is the time in the ids of the events. It must not wait.
	Counted func(a *inbox.Admission, r *inbox.Receipt, at time.Time)

	// Conflicts replaces the [conflict.Settler] on Pool, in tests.
	Conflicts Conflicts

	// Logger defaults to discarding.
	Logger *slog.Logger

	// Flushers is how many groups of one durability may be committed at once. It defaults to 2, so
	// that one lock wait does not stop all. A second group is only begun while the
	// first takes unusually long.
	Flushers int

	// GroupEvents and GroupBytes bound a group. They default to 256 events and
	// 4 MiB. A single delivery of more bytes is committed alone, and one of more events
	// in parts of half as many.
	GroupEvents, GroupBytes int

	// QueueEvents and QueueBytes bound the queue. They default to 8,192 deliveries and 64 MiB; a delivery that does not
	// fit is refused with [ErrOverloaded]. If there are several Durabilities, the deliveries of each have an equal share.
	QueueEvents int
	QueueBytes  int64

	// Deadline is when a delivery is answered at the latest, counted from when it entered the gate, however often its
	// group runs. It defaults to [DefaultDeadline].
	Deadline time.Duration
}

// DefaultDeadline is the default of [Config.Deadline]. Most senders wait ten seconds for an answer.
const DefaultDeadline = 8 * time.Second

func (c *Config) withDefaults() Config {
	out := *c
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	out.Flushers = cmp.Or(out.Flushers, 2)
	out.GroupEvents = cmp.Or(out.GroupEvents, 256)
	out.GroupBytes = cmp.Or(out.GroupBytes, 4<<20)
	out.QueueEvents = cmp.Or(out.QueueEvents, 8192)
	out.QueueBytes = cmp.Or(out.QueueBytes, 64<<20)
	out.Deadline = cmp.Or(out.Deadline, DefaultDeadline)
	if out.Acquire == nil && out.Pool != nil {
		out.Acquire = acquireFrom(out.Pool)
	}
	if out.Conflicts == nil {
		out.Conflicts = conflict.New(out.Pool, out.Keyring, out.Installation, out.Clock)
	}
	return out
}

// Gate records deliveries: each event once, together with its body, its effects
// and their jobs. Concurrent admissions are committed together; a lone one is
// committed at once.
type Gate struct {
	cfg   Config
	lanes []*lane // the weakest durability first

	insertEffects, insertOrdered statement // the statements with the Enqueuer's ids

	repeated atomic.Bool // the last group had an event that was recorded before
	standby  atomic.Bool // the server names synchronous standbys

	mu      sync.RWMutex // guards stopped against sends on queues
	stopped bool
	running sync.WaitGroup
	stats   counters
	order   inbox.OrderCounters
}

// maxQueueEvents bounds the queue, whose places are made at once.
const maxQueueEvents = 1 << 20

// New makes a gate; Start starts it.
func New(cfg Config) (*Gate, error) {
	var errs []error
	if cfg.Pool == nil {
		errs = append(errs, errors.New("gate: Pool is required"))
	}
	if cfg.Enqueuer == nil {
		errs = append(errs, errors.New("gate: Enqueuer is required"))
	}
	if cfg.Clock == nil {
		errs = append(errs, errors.New("gate: Clock is required"))
	}
	if cfg.QueueEvents < 0 || cfg.QueueEvents > maxQueueEvents {
		errs = append(errs, fmt.Errorf("gate: QueueEvents must be from 1 to %d", maxQueueEvents))
	}
	if cfg.QueueBytes < 0 || cfg.Deadline < 0 {
		errs = append(errs, errors.New("gate: QueueBytes and Deadline must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Gate{
		insertEffects: insertEffectsOf(cfg.Enqueuer.JobID()), insertOrdered: insertOrderedOf(cfg.Enqueuer.JobID()),
		cfg:   cfg,
		lanes: makeLanes(&cfg),
	}, nil
}

// The setting is empty, or names the standbys a COMMIT waits for.
const readStandbys = `SELECT current_setting('synchronous_standby_names') <> ''`

// Start begins to commit. It returns an error if the database cannot be reached.
func (g *Gate) Start(ctx context.Context) error {
	var named bool
	if err := g.cfg.Pool.QueryRow(ctx, readStandbys).Scan(&named); err != nil {
		return fmt.Errorf("starting the gate: %w", err)
	}
	g.standby.Store(named)
	for _, l := range g.lanes {
		for range g.cfg.Flushers {
			g.running.Go(func() { g.flush(l) })
		}
	}
	return nil
}

// Stop refuses new deliveries, commits those that wait, and returns when the
// last one is answered or ctx ends. It may be called twice.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	if !g.stopped {
		g.stopped = true
		for _, l := range g.lanes {
			close(l.queue)
		}
	}
	g.mu.Unlock()
	done := make(chan struct{})
	go func() { g.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the gate: %w", context.Cause(ctx))
	}
}

// Accept records a verified delivery and returns after the commit. The caller acknowledges if, and only if, the error
// is nil; otherwise it is [ErrOverloaded], [inbox.ErrSuspectedRepeat] or [inbox.ErrNotFollowed], or wraps
// [ErrUnavailable]. The sender's disconnect does not cancel a commit: Accept uses a.Body until it returns, even if ctx
// ends.
func (g *Gate) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	if len(a.Events) == 0 {
		return inbox.Receipt{}, nil // an empty batch is a legal heartbeat
	}
	d := prepare(a, g.cfg.Clock.Now())
	d.entered, d.lane = g.cfg.Clock.Local(), g.laneOf(a.Source.Durability)
	d.seal(g.cfg.Keyring)
	d.hash(g.cfg.Installation)
	d.label(g.cfg.Installation.Value)
	err := g.record(d)
	if err != nil {
		g.count(d) // parts of it may be committed
	}
	if errors.Is(err, ErrOverloaded) || errors.Is(err, errStopping) {
		return inbox.Receipt{}, err
	}
	g.stats.waited.Add(int64(max(g.cfg.Clock.Now().Sub(d.queuedAt), 0))) // a clock may be set back
	g.stats.answered.Add(1)
	if err != nil {
		return inbox.Receipt{}, err
	}
	err = g.settleConflicts(ctx, d)
	g.count(d) // also the recorded events of a delivery that fails now
	if err != nil {
		return inbox.Receipt{}, err
	}
	g.countPlaces(d)
	return d.receipt, nil
}

// settleConflicts decides about the events whose key was recorded with other bytes. After an error, those for which it was
// not decided have no outcome.
func (g *Gate) settleConflicts(ctx context.Context, d *delivery) (err error) {
	for i := range d.entries {
		if !d.entries[i].differs {
			continue
		}
		out := &d.receipt.Items[i]
		if err == nil {
			err = g.settleConflict(context.WithoutCancel(ctx), &d.entries[i], out)
		}
		if err != nil {
			out.Outcome = ""
		}
	}
	return err
}

// settleConflict decides about one event within what its delivery has left of its deadline. Each event of a batch has a
// deadline of its own.
func (g *Gate) settleConflict(ctx context.Context, e *entry, out *inbox.ItemReceipt) error {
	within := g.cfg.Deadline
	if d := e.delivery; len(d.entries) == 1 {
		within = g.timeLeft(d)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	p := conflict.Payload{Admission: e.delivery.admission, Item: e.item, EventID: e.eventID, SHA: e.sha, Recorded: e.row}
	if err := g.cfg.Conflicts.Settle(ctx, &p, out); err != nil {
		kind := ErrUnavailable
		if classify(err) == faultSplit {
			kind = errDelivery
		}
		return fmt.Errorf("%w: %w", kind, err)
	}
	return nil
}
