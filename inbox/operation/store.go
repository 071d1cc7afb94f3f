package operation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// Config configures a [Store]. Pool is required.
type Config struct {
	Pool *pgxpool.Pool

	// Keyring opens results and seals documents. nil stores them in plain.
	Keyring *seal.Keyring

	// Installation is the secret under which hashes of content are stored, as in the gate's configuration.
	Installation inbox.InstallationSecret

	// Poll is how often the database is asked while callers wait. Without waiting callers
	// it is not asked. It defaults to 200 ms.
	Poll time.Duration

	// Now is for how often events of many effects are read. It defaults to time.Now.
	Now func() time.Time

	// Logger defaults to discarding.
	Logger *slog.Logger
}

// Store answers with the state of operations and, for sources that ask for it, of
// other events: the states of their effects and, once all are at rest, the result that
// every later answer repeats byte for byte.
type Store struct {
	cfg Config

	mu       sync.Mutex
	waiters  map[inbox.ID][]chan []byte
	settled  []inbox.ID
	released bool
	later    map[inbox.ID]time.Time // when events of many effects are read again
	stop     context.CancelFunc
	done     chan struct{}

	kick chan struct{}
}

// maxSettled bounds the settled events that wait to be rendered. The results of further
// events are rendered when a caller asks for them.
const maxSettled = 10_000

// New makes a Store. It answers at once; waiting needs Start.
func New(cfg Config) (*Store, error) {
	if cfg.Pool == nil {
		return nil, errors.New("operations: Pool is required")
	}
	if cfg.Poll < 0 {
		return nil, errors.New("operations: Poll must not be negative")
	}
	cfg.Poll = cmp.Or(cfg.Poll, 200*time.Millisecond)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Store{cfg: cfg, waiters: make(map[inbox.ID][]chan []byte), later: make(map[inbox.ID]time.Time), kick: make(chan struct{}, 1)}, nil
}

// Start begins to poll for waiting callers, until Stop.
func (o *Store) Start(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done != nil || o.released {
		return nil
	}
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	o.done = make(chan struct{})
	go o.run(ctx, o.done)
	return nil
}

// Release ends all waits and prevents new ones, because the process is about to stop.
func (o *Store) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released = true
	for id, waiting := range o.waiters {
		for _, w := range waiting {
			close(w)
		}
		delete(o.waiters, id)
	}
}

// Stop releases and ends. It may be called before Start and twice.
func (o *Store) Stop(context.Context) error {
	o.Release()
	o.mu.Lock()
	stop, done := o.stop, o.done
	o.mu.Unlock()
	if done != nil {
		stop()
		<-done
	}
	return nil
}

// Settled reports that an attempt of one of the event's effects has ended in this process,
// so that callers that wait here need not wait for a poll. It never blocks.
func (o *Store) Settled(event inbox.ID) {
	o.mu.Lock()
	if len(o.settled) < maxSettled {
		o.settled = append(o.settled, event)
	}
	o.mu.Unlock()
	o.wake()
}

func (o *Store) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// run renders the results of events that settled in this process and, while callers wait,
// polls for all of their events at once.
func (o *Store) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	ticker := time.NewTicker(o.cfg.Poll)
	ticker.Stop()
	defer ticker.Stop()
	ticking := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.kick:
			o.checkWaiting(ctx, o.takeSettled())
		case <-ticker.C:
			o.checkWaiting(ctx, o.waiting())
		}
		if somebody := len(o.waiting()) > 0; somebody && !ticking {
			ticker.Reset(o.cfg.Poll)
			ticking = true
		} else if !somebody && ticking {
			ticker.Stop()
			ticking = false
		}
	}
}

func (o *Store) takeSettled() []inbox.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.settled
	o.settled = nil
	return out
}

func (o *Store) waiting() []inbox.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]inbox.ID, 0, len(o.waiters))
	for id := range o.waiters {
		out = append(out, id)
	}
	return out
}

// maxChecked bounds the events of one statement.
const maxChecked = 256

// checkWaiting renders the results of those events that are at rest and sends the results
// to the callers that wait for them. A failed read is repeated by the next poll or the next
// caller.
func (o *Store) checkWaiting(ctx context.Context, events []inbox.ID) {
	events = o.due(events)
	slices.SortFunc(events, func(a, b inbox.ID) int { return bytes.Compare(a[:], b[:]) })
	for chunk := range slices.Chunk(slices.Compact(events), maxChecked) {
		documents, err := o.documents(ctx, chunk)
		if err != nil {
			if ctx.Err() == nil {
				o.cfg.Logger.WarnContext(ctx, "reading results of operations failed", slog.String("error", row.ErrorText(err)))
			}
			return
		}
		o.mu.Lock()
		for id, document := range documents {
			for _, w := range o.waiters[id] {
				w <- document // room for one, and sent once
			}
			delete(o.waiters, id)
		}
		o.mu.Unlock()
	}
}

// An event with a list has many effects, and the end of each would cause all of them to be
// read again. An event with manyEffects or more is read again only after readEffectEach for
// each of its effects. A call of Result reads at once.
const (
	manyEffects    = 500
	readEffectEach = 100 * time.Microsecond
)

// readLater remembers that an event with so many effects was read while some of them were
// still running.
func (o *Store) readLater(event inbox.ID, effects int) {
	if effects < manyEffects {
		return
	}
	now := o.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.later) >= maxSettled {
		clear(o.later) // they are read once more than they need to be
	}
	o.later[event] = now.Add(time.Duration(effects) * readEffectEach)
}

// due returns the events that may be read now. The next poll serves callers that wait for
// the others, and a result that no caller waits for is rendered when a caller asks for it.
func (o *Store) due(events []inbox.ID) []inbox.ID {
	now := o.cfg.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.later) == 0 {
		return events
	}
	return slices.DeleteFunc(events, func(id inbox.ID) bool {
		until, many := o.later[id]
		if many && now.Before(until) {
			return true
		}
		delete(o.later, id)
		return false
	})
}

// Waiting is how many operations callers wait for in this process.
func (o *Store) Waiting() int { return len(o.waiting()) }

// Result returns the result of an operation. ok is false as long as one of its effects is
// still running, and if there is no such event.
func (o *Store) Result(ctx context.Context, event inbox.ID) (document []byte, ok bool, err error) {
	documents, err := o.documents(ctx, []inbox.ID{event})
	if err != nil {
		return nil, false, fmt.Errorf("reading the result of event %s: %w", event, err)
	}
	document, ok = documents[event]
	return document, ok, nil
}

// Await is like Result but waits, at most so long, until the operation is at rest. All
// callers that wait in a process share one poll, and the end of an attempt in the same
// process wakes them at once.
func (o *Store) Await(ctx context.Context, event inbox.ID, atMost time.Duration) (document []byte, ok bool, err error) {
	if atMost <= 0 {
		return o.Result(ctx, event)
	}
	w := make(chan []byte, 1)
	if !o.addWaiter(event, w) {
		return o.Result(ctx, event)
	}
	defer o.removeWaiter(event, w)
	// Read only after w is registered, so that w receives every result that is rendered
	// from here on.
	if document, ok, err = o.Result(ctx, event); err != nil || ok {
		return document, ok, err
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case document, ok = <-w:
		return document, ok, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, false, nil
}

func (o *Store) addWaiter(event inbox.ID, w chan []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.released || o.done == nil {
		return false
	}
	o.waiters[event] = append(o.waiters[event], w)
	o.wake()
	return true
}

func (o *Store) removeWaiter(event inbox.ID, w chan []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := slices.DeleteFunc(o.waiters[event], func(other chan []byte) bool { return other == w })
	if len(rest) == 0 {
		delete(o.waiters, event)
		return
	}
	o.waiters[event] = rest
}
