package consume

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/background"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/sleep"
)

// Message is a message on its way to be recorded.
type Message struct {
	Header http.Header
	Body   []byte

	// At is when the broker got the message, or now if the broker does not say.
	At time.Time

	// Since is when the message was first passed on.
	Since time.Time
}

// Verdict is the result of passing a message on.
type Verdict struct {
	// Settled means that the message is recorded or kept as a refusal, so that the broker may forget it.
	Settled bool

	// Refused means that the message did not verify.
	Refused bool

	// After is how long to wait before the message is passed on again; 0 leaves it to the consumer.
	After time.Duration

	// Err is why the message is not settled. It is nil if a quota is used up.
	Err error
}

// Names are the headers that tell where a message was in its broker. A message cannot choose them.
type Names struct{ Position, Lane, Time string }

// Config configures a [Consumer]. Source, Broker, Deliver, Names and Logger are required.
type Config struct {
	// Source is the name of the source.
	Source string

	// Broker is where the messages are. The Consumer closes it.
	Broker broker.Consumer

	// Deliver verifies a message and records it. It is called by several goroutines.
	Deliver func(ctx context.Context, m *Message) Verdict

	Names Names

	// Ordered passes the messages of a lane on one after the other.
	Ordered bool

	// Paused reports whether nothing is taken now. nil means never.
	Paused func() bool

	Logger *slog.Logger

	// Now is the clock that is corrected to the database's. It defaults to time.Now.
	Now func() time.Time

	// Group is how many messages are taken at once. It defaults to 256, as many as the gate commits together.
	Group int

	// Patience is how long the messages of a group are tried before they are returned to the broker. It defaults to 20 s, which
	// is less than a broker waits for an acknowledgement.
	Patience time.Duration
}

// The pauses and bounds of a consumer.
const (
	// takeFor bounds one wait for messages, so that pauses are noticed and the lag is measured.
	takeFor = 5 * time.Second
	// pauseFor is how often a paused consumer looks whether it still is.
	pauseFor = time.Second
	// acknowledgeFor bounds an acknowledgement, also while the process stops.
	acknowledgeFor = 10 * time.Second
	// leastBackoff and mostBackoff are the pauses after a failure, which double.
	leastBackoff, mostBackoff = 100 * time.Millisecond, 10 * time.Second
	// measureEvery is how often the lag is asked for, and measureFor how long that may take.
	measureEvery, measureFor = 10 * time.Second, 5 * time.Second
	// groupBytes is about how many bytes are taken at once.
	groupBytes = 16 << 20
	// refusedInRow is how many messages in a row may be refused before the consumer takes one each doubtFor.
	refusedInRow = 100
	doubtFor     = time.Minute
)

// Consumer consumes the messages of one source.
type Consumer struct {
	cfg   Config
	state state
	stop  func(context.Context) error

	// What the loop knows.
	size     int // how many messages the next group has at most
	refused  int // messages in a row
	measured time.Time
	since    map[string]time.Time // when messages that came back were first passed on
}

// New makes a consumer, or reports everything that is wrong with cfg.
func New(cfg Config) (*Consumer, error) {
	if cfg.Source == "" || cfg.Broker == nil || cfg.Deliver == nil || cfg.Logger == nil || cfg.Names == (Names{}) {
		return nil, errors.New("consume: Source, Broker, Deliver, Names and Logger are required")
	}
	if cfg.Group < 0 || cfg.Patience < 0 {
		return nil, errors.New("consume: Group and Patience must not be negative")
	}
	cfg.Group = cmp.Or(cfg.Group, 256)
	cfg.Patience = cmp.Or(cfg.Patience, 20*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Consumer{cfg: cfg, size: cfg.Group, since: map[string]time.Time{}}, nil
}

// Start begins to consume. It does not wait for the broker. Call it once.
func (c *Consumer) Start(ctx context.Context) {
	c.stop = background.Run(ctx, c.run)
}

// Stop takes no more messages, settles and acknowledges those under way, and closes the connection to the broker.
func (c *Consumer) Stop(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	return c.stop(ctx)
}

func (c *Consumer) run(ctx context.Context) {
	defer c.cfg.Broker.Close()
	backoff := leastBackoff
	for ctx.Err() == nil {
		c.measure(ctx)
		if c.cfg.Paused != nil && c.cfg.Paused() {
			_ = sleep.For(ctx, pauseFor)
			continue
		}
		err := c.group(ctx)
		if err == nil {
			backoff = leastBackoff
			if c.refused < refusedInRow {
				c.state.worked()
			}
			continue
		}
		if ctx.Err() == nil {
			c.failed(ctx, err)
		}
		_ = sleep.For(ctx, backoff)
		backoff = min(2*backoff, mostBackoff)
	}
}

// group takes messages, settles them and acknowledges those that are settled. It returns the others to the broker.
func (c *Consumer) group(ctx context.Context) error {
	n := c.size
	if c.refused >= refusedInRow {
		n = 1
	}
	messages, err := c.take(ctx, n)
	if err != nil {
		return err
	}
	c.state.reached(c.cfg.Now())
	if len(messages) == 0 {
		return nil
	}
	c.state.taken.Add(uint64(len(messages)))
	b := c.newBatch(messages)
	if c.cfg.Paused == nil || !c.cfg.Paused() { // the pause may have begun while the consumer waited
		err = b.settle(ctx)
	}
	err = errors.Join(c.acknowledge(ctx, b), err)
	c.adapt(b)
	switch {
	case err != nil:
	case c.refused >= refusedInRow:
		c.failed(ctx, errDoubted)
		_ = sleep.For(ctx, doubtFor)
	default:
		_ = sleep.For(ctx, min(b.after, mostBackoff))
	}
	return err
}

var errDoubted = errors.New("a hundred messages in a row did not verify, so one is tried each minute: correct secrets, or provider; `oncegate refusals list` shows them, and `oncegate refusals reverify` admits them afterwards")

func (c *Consumer) take(ctx context.Context, n int) ([]broker.Received, error) {
	waiting, cancel := context.WithTimeout(ctx, takeFor)
	defer cancel()
	messages, err := c.cfg.Broker.Take(waiting, n)
	if len(messages) == 0 && waiting.Err() != nil && errors.Is(err, waiting.Err()) {
		return nil, nil
	}
	return messages, err
}

// acknowledge acknowledges the settled messages of each lane before its first unsettled one, and returns the others. It does
// so also while the process stops.
func (c *Consumer) acknowledge(ctx context.Context, b *batch) error {
	settled, rest := b.divide()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acknowledgeFor)
	defer cancel()
	var errs []error
	if len(settled) > 0 {
		if err := c.cfg.Broker.Done(ctx, settled); err != nil {
			errs = append(errs, err)
		} else {
			c.state.acknowledged.Add(uint64(len(settled)))
		}
	}
	if len(rest) > 0 {
		errs = append(errs, c.cfg.Broker.Return(ctx, rest))
		c.state.returned.Add(uint64(len(rest)))
	}
	return errors.Join(errs...)
}

// adapt chooses the size of the next group: what fits in memory if its messages are as large as the largest of this one, and
// what a quota lets through before the broker expects an acknowledgement.
func (c *Consumer) adapt(b *batch) {
	c.size = min(2*c.size, c.cfg.Group, max(1, groupBytes/max(1, b.largest)))
	if b.limited {
		c.size = min(c.size, max(1, b.settledFirst))
	}
}

// measure asks the broker for the lag if it is time.
func (c *Consumer) measure(ctx context.Context) {
	now := c.cfg.Now()
	if now.Sub(c.measured) < measureEvery {
		return
	}
	c.measured = now
	ctx, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	lag, err := c.cfg.Broker.Lag(ctx)
	c.state.measured(lag, err)
}

func (c *Consumer) failed(ctx context.Context, err error) {
	if c.state.failed(err, c.cfg.Now()) {
		c.cfg.Logger.WarnContext(ctx, "consuming from the broker failed, and is tried again", slog.String("source", c.cfg.Source), slog.String("error", err.Error()))
	}
}
