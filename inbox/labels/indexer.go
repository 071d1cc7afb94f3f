package labels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/background"
	"github.com/oncegate/oncegate/internal/sleep"
)

const (
	// idlePoll is how often an indexer that is not woken looks for batches that other processes have left.
	idlePoll = time.Minute

	// statementTimeout bounds one statement of an indexer.
	statementTimeout = 10 * time.Second

	// restRatio is how long the indexer rests after a statement, as a multiple of the time that the statement took. The
	// rest leaves nearly all of the database's capacity to a busy gate.
	restRatio = 49

	// uniqueViolation is the SQLSTATE for a label that is already in the index.
	uniqueViolation = "23505"

	// patience is how long labels may wait while the indexer rests. The indexer moves older ones without a rest, because a search reads
	// all waiting labels. If a saturated receiver has left a million, that takes 40 ms for a label of few events, and 300 ms for one of most.
	patience = 20 * time.Second
)

// Config configures an [Indexer]. DB is required.
type Config struct {
	// DB runs each statement in a separate transaction, as a *pgxpool.Pool does.
	DB Querier

	// Now is the clock of the gate. It defaults to time.Now.
	Now func() time.Time

	// Every is how long labels wait at least, so that one statement moves many. It defaults to 250 ms.
	Every time.Duration

	// Logger defaults to discarding.
	Logger *slog.Logger
}

// Indexer moves labels into their index soon after they were committed. Make one with [New].
type Indexer struct {
	cfg     Config
	woken   chan struct{}
	failing bool
	stop    func(ctx context.Context) error // nil until it is started
}

// New makes an indexer. Call [Indexer.Start] to run it.
func New(cfg Config) (*Indexer, error) {
	if cfg.DB == nil {
		return nil, errors.New("labels: DB is required")
	}
	if cfg.Every < 0 {
		return nil, errors.New("labels: Every must not be negative")
	}
	cfg.Every = cmp.Or(cfg.Every, 250*time.Millisecond)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Indexer{cfg: cfg, woken: make(chan struct{}, 1)}, nil
}

// Wake tells the indexer that labels were committed. It never waits, and a nil indexer ignores it.
func (x *Indexer) Wake() {
	if x == nil {
		return
	}
	select {
	case x.woken <- struct{}{}:
	default:
	}
}

// Start runs the indexer, which begins with the batches that earlier processes have left.
func (x *Indexer) Start(ctx context.Context) error {
	x.Wake()
	x.stop = background.Run(ctx, x.run)
	return nil
}

// Stop ends the indexer. Searches still find the labels that it has not moved, and the next indexer moves them.
func (x *Indexer) Stop(ctx context.Context) error {
	if x.stop == nil {
		return nil
	}
	return x.stop(ctx)
}

func (x *Indexer) run(ctx context.Context) {
	poll := time.NewTicker(idlePoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.woken:
		case <-poll.C:
		}
		if sleep.For(ctx, x.cfg.Every) != nil {
			return
		}
		x.logged(ctx, x.moveWaiting(ctx))
	}
}

// moveWaiting moves batches until less than a full page is left.
func (x *Indexer) moveWaiting(ctx context.Context) error {
	for {
		began := x.cfg.Now()
		moved, oldest, err := x.move(ctx)
		if err != nil || moved < moveBatches {
			return err
		}
		if now := x.cfg.Now(); now.Sub(oldest.Time()) < patience && sleep.For(ctx, restRatio*now.Sub(began)) != nil {
			return nil //nolint:nilerr // the indexer stops, which is no failure
		}
	}
}

// move moves one page. oldest is the first of its batches.
func (x *Indexer) move(ctx context.Context) (moved int, oldest inbox.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = x.cfg.DB.QueryRow(ctx, moveNext, moveBatches).Scan(&moved, &oldest)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == uniqueViolation {
		err = x.cfg.DB.QueryRow(ctx, repeatNext, moveBatches).Scan(&moved, &oldest)
	}
	if err != nil {
		return 0, oldest, fmt.Errorf("moving labels into their index: %w", err)
	}
	return moved, oldest, nil
}

// logged reports the first failure after a success, and the first success after a failure.
func (x *Indexer) logged(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil && !x.failing:
		x.failing = true
		x.cfg.Logger.WarnContext(ctx, "labels could not be moved into their index; events are found by them all the same, but more slowly", slog.Any("error", err))
	case err == nil && x.failing:
		x.failing = false
		x.cfg.Logger.InfoContext(ctx, "labels are moved into their index again")
	}
}
