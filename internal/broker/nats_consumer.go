package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// natsAckWait is how long JetStream waits for an acknowledgement before it delivers a message again.
	natsAckWait = 30 * time.Second
	// natsPull is how long a request for the first message waits. natsGather is how long the request for the messages behind
	// it waits, because another process may take them first.
	natsPull, natsGather = 5 * time.Second, 200 * time.Millisecond
	// natsPending is how many messages a durable consumer lets be under way.
	natsPending = 10_000
)

// natsConsumer consumes a stream with a durable consumer.
type natsConsumer struct {
	natsConn
	cfg      *ConsumerConfig
	consumer jetstream.Consumer
}

func newNATSConsumer(cfg *ConsumerConfig) *natsConsumer {
	return &natsConsumer{natsConn: natsConn{cfg: &cfg.Config, dialer: newDialer(&cfg.Config)}, cfg: cfg}
}

// durable returns the durable consumer, and makes it if there is none. One that exists keeps its settings, except that the
// messages of an ordered consumer are under way one at a time.
func (c *natsConsumer) durable(ctx context.Context) (jetstream.Consumer, error) {
	_, js, _, err := c.opened()
	if err != nil {
		return nil, err
	}
	if c.consumer != nil {
		return c.consumer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	most := natsPending
	if c.cfg.Ordered {
		most = 1
	}
	found, err := js.Consumer(ctx, c.cfg.Place, c.cfg.Group)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrConsumerDoesNotExist):
		found, err = js.CreateConsumer(ctx, c.cfg.Place, jetstream.ConsumerConfig{
			Durable: c.cfg.Group, Description: "oncegate", AckPolicy: jetstream.AckExplicitPolicy, AckWait: natsAckWait,
			DeliverPolicy: jetstream.DeliverAllPolicy, MaxAckPending: most, MaxDeliver: -1, FilterSubject: c.cfg.Filter,
		})
	case err == nil && c.cfg.Ordered && found.CachedInfo().Config.MaxAckPending != most:
		cfg := found.CachedInfo().Config
		cfg.MaxAckPending = most
		found, err = js.UpdateConsumer(ctx, c.cfg.Place, cfg)
	}
	switch {
	case err != nil:
		return nil, c.answer(err)
	case found.CachedInfo().Config.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, &Error{Err: fmt.Errorf("%w: consumer %s of stream %s does not acknowledge each message; delete it, or name another group", ErrRefused, c.cfg.Group, c.cfg.Place)}
	}
	c.consumer = found
	return found, nil
}

// answer returns what an error of JetStream's means.
func (c *natsConsumer) answer(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return &Error{Err: fmt.Errorf("%w: there is no stream %s", ErrNoPlace, c.cfg.Place)}
	}
	if answer, ok := errors.AsType[*jetstream.APIError](err); ok {
		return &Error{Err: fmt.Errorf("%w: %s", ErrRefused, answer.Description), Code: fmt.Sprint(uint16(answer.ErrorCode))}
	}
	return unreachable(err)
}

// Take implements [Consumer]. It waits for one message, which says how many others there are, and then takes these too.
func (c *natsConsumer) Take(ctx context.Context, n int) ([]Received, error) {
	consumer, err := c.durable(ctx)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, natsPull)
	defer cancel()
	out, err := natsFetch(consumer, 1, jetstream.FetchContext(waiting))
	if len(out) > 0 {
		if more := min(n-1, natsRest(&out[0])); more > 0 && !c.cfg.Ordered {
			rest, _ := natsFetch(consumer, more, jetstream.FetchMaxWait(natsGather))
			out = append(out, rest...)
		}
		return out, nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, jetstream.ErrInvalidOption): // the client found that the deadline has passed, a moment before ctx did
		return nil, nil
	case err == nil, errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoMessages):
		return nil, nil
	case errors.Is(err, jetstream.ErrConsumerDeleted), errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, nats.ErrNoResponders):
		c.consumer = nil // is made again
	}
	return nil, unreachable(err)
}

// natsRest returns how many messages the consumer had after a message when it was delivered.
func natsRest(r *Received) int {
	msg, _ := r.handle.(jetstream.Msg)
	meta, err := msg.Metadata()
	if err != nil {
		return 0
	}
	return int(min(meta.NumPending, natsPending))
}

// natsFetch makes one request for messages and waits for its end.
func natsFetch(consumer jetstream.Consumer, n int, until jetstream.FetchOpt) ([]Received, error) {
	batch, err := consumer.Fetch(n, until)
	if err != nil {
		return nil, err
	}
	return natsBatch(batch)
}

// natsBatch collects the messages of one request.
func natsBatch(batch jetstream.MessageBatch) (out []Received, err error) {
	for msg := range batch.Messages() {
		r, err := natsReceived(msg)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, batch.Error()
}

func natsReceived(msg jetstream.Msg) (Received, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return Received{}, err
	}
	out := Received{
		Header: http.Header{}, Body: msg.Data(), At: meta.Timestamp, handle: msg,
		Lane: meta.Stream, Position: fmt.Sprintf("%s/%d", meta.Stream, meta.Sequence.Stream),
	}
	for name, values := range msg.Headers() {
		for _, value := range values {
			if strings.HasPrefix(strings.ToLower(name), natsPrefix) {
				value = percentDecoded(value)
			}
			addHeader(out.Header, name, value)
		}
	}
	out.Header.Set("Nats-Subject", msg.Subject())
	return out, nil
}

// Done implements [Consumer]. It waits for the server's answer to the last acknowledgement, because those before it have
// arrived then.
func (c *natsConsumer) Done(ctx context.Context, messages []Received) error {
	return c.each(messages, func(msg jetstream.Msg, last bool) error {
		if last {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return msg.DoubleAck(ctx)
		}
		return msg.Ack()
	})
}

// Return implements [Consumer].
func (c *natsConsumer) Return(_ context.Context, messages []Received) error {
	return c.each(messages, func(msg jetstream.Msg, _ bool) error {
		if c.cfg.ReturnAfter > 0 {
			return msg.NakWithDelay(c.cfg.ReturnAfter)
		}
		return msg.Nak()
	})
}

// each calls do for the messages, and returns its first error.
func (*natsConsumer) each(messages []Received, do func(msg jetstream.Msg, last bool) error) error {
	var errs error
	for i := range messages {
		if msg, ok := messages[i].handle.(jetstream.Msg); ok && errs == nil {
			errs = do(msg, i == len(messages)-1)
		}
	}
	return errs
}

// Lag implements [Consumer].
func (c *natsConsumer) Lag(ctx context.Context) (int64, error) {
	consumer, err := c.durable(ctx)
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return 0, unreachable(err)
	}
	return int64(info.NumPending) + int64(info.NumAckPending), nil
}

// Reach implements [Consumer].
func (c *natsConsumer) Reach(ctx context.Context) error {
	_, js, _, err := c.opened()
	if err != nil {
		return err
	}
	if _, err := js.Stream(ctx, c.cfg.Place); err != nil {
		return c.answer(err)
	}
	return nil
}

// Close implements [Consumer].
func (c *natsConsumer) Close() { c.close() }
