package inbox

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
	"github.com/jackc/pgx/v5/pgxpool"
)

// RelayConfig configures a [Relay]. Pool, Gate, Clock and Logger are required.
type RelayConfig struct {
	// Pool is read from. A batch holds one connection while the gate commits.
	Pool *pgxpool.Pool

	// Gate admits what was emitted, like any delivery.
	Gate interface {
		Accept(ctx context.Context, a *Admission) (Receipt, error)
	}

	Clock  *Clock
	Logger *slog.Logger

	// Sources are those open to emit, by name. Rows of others are left to a process
	// that knows them.
	Sources map[string]*Source

	// Every is how often the outbox is looked at; it needs no notification. It
	// defaults to 500 ms.
	Every time.Duration

	// Batch is how many rows are admitted together. It defaults to 256.
	Batch int
}

// Relay brings what SQL callers emitted to the gate: it admits the rows of the
// outbox and then deletes them. Any number may run at once, and one that is
// killed in between does no harm, since the gate recognises the repeat.
type Relay struct {
	cfg   RelayConfig
	names []string

	relayed, duplicates, conflicts, failed atomic.Uint64

	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// RelayStats are the counters of a [Relay] since it was made.
type RelayStats struct {
	// Relayed rows were new, Duplicates had been admitted before, Conflicts with
	// another payload. Failed ones stay in the outbox.
	Relayed, Duplicates, Conflicts, Failed uint64
}

// NewRelay makes a Relay, or reports everything that is wrong with cfg.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	if cfg.Pool == nil || cfg.Gate == nil || cfg.Clock == nil || cfg.Logger == nil {
		return nil, errors.New("relay: Pool, Gate, Clock and Logger are required")
	}
	if cfg.Every < 0 || cfg.Batch < 0 {
		return nil, errors.New("relay: Every and Batch must not be negative")
	}
	cfg.Every = cmp.Or(cfg.Every, 500*time.Millisecond)
	cfg.Batch = cmp.Or(cfg.Batch, 256)
	r := &Relay{cfg: cfg}
	for name := range cfg.Sources {
		r.names = append(r.names, name)
	}
	return r, nil
}

// Stats gives the counters as they are now.
func (r *Relay) Stats() RelayStats {
	return RelayStats{
		Relayed: r.relayed.Load(), Duplicates: r.duplicates.Load(), Conflicts: r.conflicts.Load(), Failed: r.failed.Load(),
	}
}

// Start begins to relay, until Stop. Without sources it does nothing.
func (r *Relay) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil || len(r.names) == 0 {
		return nil
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.done = make(chan struct{})
	go r.run(ctx, r.done)
	return nil
}

// Stop ends the batch under way and returns when it has.
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
		if _, err := r.Run(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.WarnContext(ctx, "relaying the outbox failed", slog.String("error", sanitized(err)))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Run relays everything that is in the outbox now and that no other relay has. A
// row that the gate does not take stays and does not hold up the rows behind it.
// It returns how many rows were deleted.
func (r *Relay) Run(ctx context.Context) (int, error) {
	total, last := 0, int64(0)
	for {
		seen, deleted, err := r.batch(ctx, &last)
		total += deleted
		if err != nil {
			return total, fmt.Errorf("relaying the outbox: %w", err)
		}
		if seen < r.cfg.Batch {
			return total, nil
		}
	}
}

// Rows are taken in the order of their ids, which is not that of their commits:
// what commits late is found by the next run, which starts from the front.
const takeOutbox = `
SELECT id, source, event_id, type, payload, created_at
FROM outbox
WHERE id > $1 AND source = ANY ($2::text[])
ORDER BY id
LIMIT $3
FOR UPDATE SKIP LOCKED`

const deleteOutbox = `DELETE FROM outbox WHERE id = ANY ($1::bigint[])`

type outboxRow struct {
	ID        int64
	Source    string
	EventID   string
	Type      string
	Payload   []byte
	CreatedAt time.Time
}

// batch admits and deletes the rows after last. The rows are locked meanwhile, so
// that no other relay takes them; should the lock be lost, the gate still admits
// each once.
func (r *Relay) batch(ctx context.Context, last *int64) (seen, deleted int, err error) {
	err = pgx.BeginFunc(ctx, r.cfg.Pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, takeOutbox, *last, r.names, r.cfg.Batch)
		if err != nil {
			return err
		}
		taken, err := pgx.CollectRows(rows, pgx.RowToStructByPos[outboxRow])
		if err != nil || len(taken) == 0 {
			return err
		}
		seen, *last = len(taken), taken[len(taken)-1].ID
		admitted := r.admit(ctx, taken)
		if len(admitted) == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, deleteOutbox, admitted); err != nil {
			return err
		}
		deleted = len(admitted)
		return nil
	})
	if err != nil {
		deleted = 0
	}
	return seen, deleted, err
}

// admit takes the rows to the gate all at once, so that they become one group,
// and gives the ids of those that are recorded now.
func (r *Relay) admit(ctx context.Context, rows []outboxRow) []int64 {
	receipts, errs := make([]Receipt, len(rows)), make([]error, len(rows))
	var all sync.WaitGroup
	for i := range rows {
		all.Go(func() { receipts[i], errs[i] = r.cfg.Gate.Accept(ctx, r.admission(&rows[i])) })
	}
	all.Wait()
	admitted := make([]int64, 0, len(rows))
	var failure error
	for i := range rows {
		if errs[i] != nil || len(receipts[i].Items) != 1 {
			r.failed.Add(1)
			failure = cmp.Or(failure, errs[i])
			continue
		}
		admitted = append(admitted, rows[i].ID)
		r.count(ctx, &rows[i], &receipts[i].Items[0])
	}
	if failure != nil {
		r.cfg.Logger.WarnContext(ctx, "emitted events left in the outbox", slog.Int("events", len(rows)-len(admitted)), slog.String("error", sanitized(failure)))
	}
	return admitted
}

func (r *Relay) admission(row *outboxRow) *Admission {
	return &Admission{
		Source: r.cfg.Sources[row.Source], Body: row.Payload, Headers: []byte(`{"Content-Type":["application/json"]}`),
		ReceivedAt: r.cfg.Clock.Now(),
		Events:     []NewEvent{{EventID: row.EventID, Type: row.Type, OccurredAt: row.CreatedAt, Length: len(row.Payload)}},
	}
}

func (r *Relay) count(ctx context.Context, row *outboxRow, item *ItemReceipt) {
	level, message := slog.LevelInfo, "event recorded"
	switch item.Outcome {
	case Recorded:
		r.relayed.Add(1)
	case Duplicate:
		r.duplicates.Add(1)
		message = "duplicate recognised"
	case Conflict:
		r.conflicts.Add(1)
		level, message = slog.LevelWarn, "conflict recorded"
	}
	r.cfg.Logger.LogAttrs(ctx, level, message, //nolint:sloglint // one of the constants above
		slog.String("source", row.Source), slog.String("event", item.ID.String()), slog.String("id", row.EventID),
		slog.String("type", row.Type), slog.String("outcome", string(item.Outcome)), slog.String("via", "emit"))
}
