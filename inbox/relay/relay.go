package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Config configures a [Relay]. Pool, Clock and Logger are required, and Gate
// unless Sources is empty.
type Config struct {
	// Pool is used for reading. A batch uses one connection while the gate commits, and briefly a
	// second one.
	Pool *pgxpool.Pool

	// Gate admits emitted events, like any delivery.
	Gate interface {
		Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)
	}

	Clock  *inbox.Clock
	Logger *slog.Logger

	// Installation is the secret under which hashes of content are stored, as in the gate's configuration.
	Installation inbox.InstallationSecret

	// Sources are the sources open to emit, by the name that emit writes, which is
	// registry.Registered.KeyName. Rows of other sources are left to a process that knows them.
	Sources map[string]*inbox.Source

	// Every is how often the relay reads the outbox; it needs no notification. It defaults to 500
	// ms.
	Every time.Duration

	// Batch and Bytes bound what is read and admitted at once. They default to 256 rows, 1,000 at
	// most, and 4 MiB; a larger row is admitted alone.
	Batch int
	Bytes int64

	// Grace is the age at which a row of a source that is not in Sources is refused: until then
	// it is left to a process that knows the source. It defaults to 1 h.
	Grace time.Duration

	// Paused reports whether an operator has paused a source, by the id of its row: its rows stay in the outbox. nil means never.
	Paused func(sourceID int32) bool

	// Fits returns why nothing may be relayed now: a newer program has changed the tables. The
	// rows wait for a newer process. nil means that they always may be relayed.
	Fits func() error
}

// Relay passes emitted events to the gate: it admits the rows of the outbox and then deletes
// them. Any number of relays may run at once, and one that is killed in between does no harm,
// because the gate recognises the repeat.
type Relay struct {
	cfg   Config
	names []string

	relayed, duplicates, conflicts, failed, refused atomic.Uint64

	sweepAt time.Time // when rows of unknown sources are looked for next

	waiting sync.Map // sourceWait, by source

	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// maxBatch is the most rows of one batch: so many arrivals fit a microsecond, the
// precision in which times are stored.
const maxBatch = 1000

// Stats are the counters of a [Relay] since it was made.
type Stats struct {
	// Relayed rows were new, Duplicates had been admitted before, Conflicts with
	// another payload. Failed ones stay in the outbox and are tried again. Refused ones
	// can never be admitted and stay for a person.
	Relayed, Duplicates, Conflicts, Failed, Refused uint64
}

// New makes a Relay, or reports everything that is wrong with cfg.
func New(cfg Config) (*Relay, error) {
	if cfg.Pool == nil || cfg.Gate == nil && len(cfg.Sources) > 0 || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("relay: Pool, Gate, Clock and Logger are required")
	}
	if cfg.Every < 0 || cfg.Batch < 0 || cfg.Batch > maxBatch || cfg.Bytes < 0 || cfg.Grace < 0 {
		return nil, fmt.Errorf("relay: Every, Batch, Bytes and Grace must not be negative, and Batch not over %d", maxBatch)
	}
	cfg.Every = cmp.Or(cfg.Every, 500*time.Millisecond)
	cfg.Batch = cmp.Or(cfg.Batch, 256)
	cfg.Bytes = cmp.Or(cfg.Bytes, 4<<20)
	cfg.Grace = cmp.Or(cfg.Grace, time.Hour)
	r := &Relay{cfg: cfg, names: []string{}}
	for name := range cfg.Sources {
		r.names = append(r.names, name)
	}
	return r, nil
}

// Stats returns the current counters.
func (r *Relay) Stats() Stats {
	return Stats{
		Relayed: r.relayed.Load(), Duplicates: r.duplicates.Load(), Conflicts: r.conflicts.Load(), Failed: r.failed.Load(),
		Refused: r.refused.Load(),
	}
}

// Start begins to relay, until Stop. Without sources it only refuses rows that no process knows.
func (r *Relay) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		return nil
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.done = make(chan struct{})
	go r.run(ctx, r.done)
	return nil
}

// Stop ends the current batch and returns when it has ended.
func (r *Relay) Stop(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		r.stop()
		<-r.done
	}
	return nil
}

func (r *Relay) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	for {
		if r.cfg.Fits != nil && r.cfg.Fits() != nil {
			// left to a newer process
		} else if _, err := r.Run(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.WarnContext(ctx, "relaying the outbox failed", slog.String("error", row.ErrorText(err)))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Most passes find nothing: one statement for all sources.
const waitingSources = `
SELECT k.name FROM unnest($1::text[]) AS k (name)
WHERE EXISTS (SELECT FROM outbox o WHERE o.source = k.name AND o.refused_at IS NULL)`

// Run relays everything that is in the outbox now and whose source no other relay has. A
// row that the gate does not take stays; unless its source is ordered, only the later rows of its
// event wait for it. A row that can never be admitted is refused, and no other row waits for it.
// Run returns how many rows were deleted. It must not be called twice at once.
func (r *Relay) Run(ctx context.Context) (total int, err error) {
	if err := r.sweep(ctx); err != nil {
		return 0, fmt.Errorf("refusing rows of the outbox: %w", err)
	}
	if len(r.names) == 0 {
		return 0, nil
	}
	rows, err := r.cfg.Pool.Query(ctx, waitingSources, r.running())
	if err != nil {
		return 0, fmt.Errorf("relaying the outbox: %w", err)
	}
	passes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*sourcePass, error) {
		p := &sourcePass{left: map[string]bool{}}
		return p, row.Scan(&p.source)
	})
	if err != nil {
		return 0, fmt.Errorf("relaying the outbox: %w", err)
	}
	var errs []error
	for len(passes) > 0 { // a batch of each in turn, so that no source waits for all rows of another
		passes = slices.DeleteFunc(passes, func(p *sourcePass) bool {
			deleted, more, err := p.batch(ctx, r)
			total += deleted
			if err != nil {
				errs = append(errs, fmt.Errorf("relaying the outbox of source %s: %w", p.source, err))
			}
			return err != nil || !more
		})
	}
	return total, errors.Join(errs...)
}

// running returns the names of the sources that are not paused.
func (r *Relay) running() []string {
	if r.cfg.Paused == nil {
		return r.names
	}
	return slices.DeleteFunc(slices.Clone(r.names), func(name string) bool { return r.cfg.Paused(r.cfg.Sources[name].ID) })
}

func (r *Relay) count(ctx context.Context, row *outboxRow, item *inbox.ItemReceipt) {
	level, message := slog.LevelInfo, "event recorded"
	switch item.Outcome {
	case inbox.Recorded:
		r.relayed.Add(1)
	case inbox.Duplicate:
		r.duplicates.Add(1)
		message = "duplicate recognised"
	case inbox.Conflict:
		r.conflicts.Add(1)
		level, message = slog.LevelWarn, "conflict recorded"
	}
	r.cfg.Logger.LogAttrs(ctx, level, message, //nolint:sloglint // one of the constants above
		slog.String("source", r.cfg.Sources[row.Source].Name), slog.String("event", item.ID.String()), slog.String("id", r.cfg.Installation.Logged(row.EventID)),
		slog.String("type", row.Type), slog.String("outcome", string(item.Outcome)), slog.String("via", "emit"))
}
