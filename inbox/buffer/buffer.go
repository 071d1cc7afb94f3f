package buffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/sleep"
)

// ErrBuffered is returned by [Buffer.Accept] for a delivery that the stream has stored. Its sender is answered with 2xx.
var ErrBuffered = errors.New("the delivery is buffered")

// errUnasked stands for the answer of a gate that was not asked, because it does not work.
var errUnasked = fmt.Errorf("%w: it does not work at present", gate.ErrUnavailable)

// Stream is what the buffer needs of the stream. [broker.Stream] is one.
type Stream interface {
	// Publish returns when the stream has stored the message.
	Publish(ctx context.Context, m *broker.Message) (known bool, err error)
}

// Config configures a [Buffer]. Gate, Stream, Name, Find and Now are required.
type Config struct {
	Gate   inbox.Accepter
	Stream Stream

	// Name is the name of the stream, with which its subjects begin.
	Name string

	// Always publishes every delivery, and leaves the gate to [Buffer.Admit] as long as the stream works.
	Always bool

	// After is how long a delivery waits for the gate before it is published. It defaults to 2 s.
	After time.Duration

	// Deadline is when a delivery is answered at the latest. It defaults to that of the gate.
	Deadline time.Duration

	// Ordered reports whether the deliveries of the source must be recorded in the order of their publication. nil means that
	// of no source.
	Ordered func(source *inbox.Source) bool

	// Find returns the source with the first name, for [Buffer.Admit], or nil if this process does not have it. A process with
	// another configuration may: recording the delivery here would lose its effects.
	Find func(firstName string) *inbox.Source

	// Elsewhere returns the buffer of the database to which the source with the first name has moved, or nil. [Buffer.Admit] gives it
	// the deliveries that were buffered before the move. nil means that no source has moved.
	Elsewhere func(firstName string) *Buffer

	// Keyring seals messages. nil publishes them in plain.
	Keyring *seal.Keyring

	// Secret is the secret under which the ids of messages are hashed. Every process of the installation needs the same one. nil
	// hashes without a secret; set it if there is a keyring.
	Secret []byte

	// Logged returns the id of an event as the log shows it. nil shows it as it is.
	Logged func(eventID string) string

	// Logger writes a line for each event that is recorded. It defaults to discarding.
	Logger *slog.Logger

	// Now is the clock.
	Now func() time.Time
}

// trial is how long the gate is not asked after a failure.
const trial = time.Second

// Buffer keeps deliveries. Its methods are safe for concurrent use.
type Buffer struct {
	cfg     Config
	breaker *gobreaker.CircuitBreaker[inbox.Receipt]
	counters
}

// New checks the configuration and makes a Buffer.
func New(cfg Config) (*Buffer, error) {
	if cfg.Gate == nil || cfg.Stream == nil || cfg.Name == "" || cfg.Find == nil || cfg.Now == nil {
		return nil, errors.New("buffer: Gate, Stream, Name, Find and Now are required")
	}
	cfg.After = cmp.Or(cfg.After, 2*time.Second)
	cfg.Deadline = cmp.Or(cfg.Deadline, gate.DefaultDeadline)
	if cfg.After < 0 || cfg.Deadline <= cfg.After {
		return nil, errors.New("buffer: After must be shorter than Deadline")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Logged == nil {
		cfg.Logged = func(id string) string { return id }
	}
	if cfg.Elsewhere == nil {
		cfg.Elsewhere = func(string) *Buffer { return nil }
	}
	if cfg.Ordered == nil {
		cfg.Ordered = func(*inbox.Source) bool { return false }
	}
	b := &Buffer{cfg: cfg}
	b.breaker = gobreaker.NewCircuitBreaker[inbox.Receipt](gobreaker.Settings{
		Timeout: trial, ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures > 0 },
		IsSuccessful: func(err error) bool { return !isAway(err) },
	})
	return b, nil
}

// isAway reports whether the gate did not record a delivery for a reason that other deliveries meet as well. A gate without room
// is one, because its queue fills while a database does not answer.
func isAway(err error) bool {
	return errors.Is(err, errLate) || errors.Is(err, gate.ErrOverloaded) || errors.Is(err, gate.ErrUnavailable) && !errors.Is(err, gate.ErrDelivery)
}

// errLate means that the gate did not answer within After.
var errLate = fmt.Errorf("%w: the commit takes long", gate.ErrUnavailable)

// Accept passes a delivery to the gate, or publishes it if the gate cannot record it. With [Config.Always] it is the other way
// round, except that the gate is not asked about a source whose deliveries must keep their order. Accept returns [ErrBuffered] if
// the stream has stored the delivery, and otherwise what the gate returned. If the error is ErrBuffered, the gate may still read the
// body of a.
func (b *Buffer) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	if len(a.Events) == 0 {
		return inbox.Receipt{}, nil // an empty batch is a legal heartbeat
	}
	if b.cfg.Always {
		return b.acceptAlways(ctx, a)
	}
	deadline := b.cfg.Now().Add(b.cfg.Deadline)
	receipt, err := b.ask(ctx, a)
	if !isAway(err) {
		return receipt, err
	}
	return inbox.Receipt{}, b.keep(ctx, a, deadline, err)
}

// acceptAlways publishes a delivery, and asks the gate about one that the stream does not store within After.
func (b *Buffer) acceptAlways(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	now, ordered := b.cfg.Now(), b.cfg.Ordered(a.Source)
	deadline := now.Add(b.cfg.After)
	if ordered {
		deadline = now.Add(b.cfg.Deadline)
	}
	err := b.keep(ctx, a, deadline, errUnasked)
	if ordered || errors.Is(err, ErrBuffered) {
		return inbox.Receipt{}, err
	}
	return b.ask(ctx, a)
}

// keep publishes a delivery that the gate did not record because of why. It returns ErrBuffered, or why with the reason for which
// the stream did not store it.
func (b *Buffer) keep(ctx context.Context, a *inbox.Admission, deadline time.Time, why error) error {
	if failed := b.publish(context.WithoutCancel(ctx), a, deadline); failed != nil {
		b.failed.Add(1)
		b.lastError.Store(new(failed.Error()))
		return fmt.Errorf("%w; and it cannot be buffered: %w", why, failed)
	}
	b.buffered.Add(1)
	b.lastError.Store(nil)
	return ErrBuffered
}

// Committed says that the database has taken a commit, so that the gate is asked again at once. [gate.CommitProbeConfig] calls it.
func (b *Buffer) Committed() {
	_, _ = b.breaker.Execute(func() (inbox.Receipt, error) { return inbox.Receipt{}, nil }) // it has no effect while the breaker is open
}

// ask passes a delivery to the gate, unless the gate does not work.
func (b *Buffer) ask(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	receipt, err := b.breaker.Execute(func() (inbox.Receipt, error) { return b.await(ctx, a) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = errUnasked
	}
	return receipt, err
}

// await passes a delivery to the gate and waits for it, but not longer than After. The gate may still record it afterwards.
func (b *Buffer) await(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	type answer struct {
		receipt inbox.Receipt
		err     error
	}
	answered := make(chan answer, 1)
	go func() {
		receipt, err := b.cfg.Gate.Accept(ctx, a)
		answered <- answer{receipt, err}
	}()
	late := time.NewTimer(b.cfg.After)
	defer late.Stop()
	select {
	case got := <-answered:
		return got.receipt, got.err
	case <-late.C:
		return inbox.Receipt{}, errLate
	}
}

// leastPause and mostPause are the pauses between the tries to publish a delivery, which double. A cluster that has lost a server is
// without a leader for a moment.
const leastPause, mostPause = 50 * time.Millisecond, time.Second

// publish publishes a delivery, and tries again until the deadline unless the stream will never take it.
func (b *Buffer) publish(ctx context.Context, a *inbox.Admission, deadline time.Time) error {
	message, err := b.message(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deadline.Sub(b.cfg.Now()))
	defer cancel()
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		tried, end := context.WithTimeout(ctx, 2*mostPause)
		_, err = b.cfg.Stream.Publish(tried, message)
		end()
		if err == nil || errors.Is(err, broker.ErrTooLarge) || sleep.For(ctx, pause) != nil {
			return err
		}
	}
}
