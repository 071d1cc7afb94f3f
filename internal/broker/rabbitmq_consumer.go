package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitConsumer consumes a queue.
type rabbitConsumer struct {
	rabbitConn
	cfg *ConsumerConfig

	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	prefetch   int
}

func newRabbitConsumer(cfg *ConsumerConfig) *rabbitConsumer {
	return &rabbitConsumer{rabbitConn: rabbitConn{cfg: &cfg.Config, dialer: newDialer(&cfg.Config)}, cfg: cfg}
}

// consuming returns the deliveries of the queue. The server sends ahead at most n messages that are not acknowledged.
func (c *rabbitConsumer) consuming(ctx context.Context, n int) (<-chan amqp.Delivery, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channel != nil && !c.channel.IsClosed() && n <= c.prefetch {
		return c.deliveries, nil
	}
	if c.channel != nil {
		_ = c.channel.Close() // what it has not acknowledged comes again
		c.channel = nil
	}
	conn, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, unreachable(err)
	}
	if c.cfg.Ordered {
		err = c.lock(channel)
	}
	if err == nil {
		err = channel.Qos(n, 0, false)
	}
	if err == nil {
		c.deliveries, err = channel.Consume(c.cfg.Place, "", false, false, false, false, nil)
	}
	if err != nil {
		_ = channel.Close()
		return nil, rabbitAnswer(err)
	}
	c.channel, c.prefetch = channel, n
	return c.deliveries, nil
}

// lockSuffix ends the name of the queue by whose ownership an ordered consumer keeps others away.
const lockSuffix = ".oncegate"

// errHeld means that another process consumes a queue in order.
var errHeld = errors.New("another process consumes the queue")

// lock makes this connection the only one that consumes the queue in order, by an exclusive queue that ends with the
// connection. Exclusive consumers would not do, because RabbitMQ does not enforce them for quorum queues.
func (c *rabbitConsumer) lock(channel *amqp.Channel) error {
	_, err := channel.QueueDeclare(c.cfg.Place+lockSuffix, false, true, true, false, nil)
	if refused, ok := errors.AsType[*amqp.Error](err); ok && refused.Code == amqp.ResourceLocked {
		return errHeld
	}
	return err
}

// heldPause is the pause before a process asks again for a queue that another one consumes.
const heldPause = 2 * time.Second

// rabbitAnswer returns what an error of RabbitMQ means.
func rabbitAnswer(err error) error {
	refused, ok := errors.AsType[*amqp.Error](err)
	if errors.Is(err, errHeld) {
		return err
	}
	if !ok || !refused.Server {
		return unreachable(err)
	}
	kind := ErrRefused
	if refused.Code == amqp.NotFound {
		kind = ErrNoPlace
	}
	return &Error{Err: fmt.Errorf("%w: %s", kind, refused.Reason), Code: strconv.Itoa(refused.Code)}
}

// Take implements [Consumer].
func (c *rabbitConsumer) Take(ctx context.Context, n int) ([]Received, error) {
	deliveries, err := c.consuming(ctx, n)
	if errors.Is(err, errHeld) {
		select {
		case <-time.After(heldPause):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	var out []Received
	select {
	case d, open := <-deliveries:
		if !open {
			return nil, &Error{Err: ErrLost}
		}
		out = append(out, c.received(&d))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(out) < n {
		select {
		case d, open := <-deliveries:
			if !open {
				return out, nil
			}
			out = append(out, c.received(&d))
			continue
		default:
		}
		break
	}
	return out, nil
}

func (c *rabbitConsumer) received(d *amqp.Delivery) Received {
	out := Received{Header: http.Header{}, Body: d.Body, Lane: c.cfg.Place, At: d.Timestamp, handle: d}
	for name, value := range d.Headers {
		switch v := value.(type) {
		case string:
			addHeader(out.Header, name, v)
		case []byte:
			addHeader(out.Header, name, string(v))
		case bool, int8, int16, int32, int64, uint8, uint16, uint32, float32, float64:
			addHeader(out.Header, name, fmt.Sprint(v))
		}
	}
	for name, value := range map[string]string{"Content-Type": d.ContentType, "Amqp-Message-Id": d.MessageId, "Amqp-Type": d.Type, "Amqp-Routing-Key": d.RoutingKey} {
		if value != "" {
			out.Header.Set(name, value)
		}
	}
	return out
}

// Done implements [Consumer]. RabbitMQ does not confirm an acknowledgement; one that is lost makes the message come again.
func (c *rabbitConsumer) Done(_ context.Context, messages []Received) error {
	return c.each(messages, func(d *amqp.Delivery) error { return d.Ack(false) })
}

// Return implements [Consumer]. In order, everything that is not acknowledged goes back with the channel, because messages
// that were sent ahead would overtake.
func (c *rabbitConsumer) Return(_ context.Context, messages []Received) error {
	if c.cfg.Ordered {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.channel != nil {
			_ = c.channel.Close() // one that the server has closed has given everything back
			c.channel = nil
		}
		return nil
	}
	return c.each(messages, func(d *amqp.Delivery) error { return d.Nack(false, true) })
}

func (*rabbitConsumer) each(messages []Received, do func(*amqp.Delivery) error) error {
	var errs error
	for i := range messages {
		if d, ok := messages[i].handle.(*amqp.Delivery); ok && errs == nil {
			errs = do(d)
		}
	}
	return errs
}

// Lag implements [Consumer]. It counts the messages that no consumer has taken.
func (c *rabbitConsumer) Lag(ctx context.Context) (int64, error) {
	queue, err := c.queue(ctx)
	return int64(queue.Messages), err
}

// Reach implements [Consumer].
func (c *rabbitConsumer) Reach(ctx context.Context) error {
	_, err := c.queue(ctx)
	return err
}

// queue asks for the queue.
func (c *rabbitConsumer) queue(ctx context.Context) (amqp.Queue, error) {
	c.mu.Lock()
	conn, err := c.connected(ctx)
	c.mu.Unlock()
	if err != nil {
		return amqp.Queue{}, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return amqp.Queue{}, unreachable(err)
	}
	defer func() { _ = channel.Close() }()
	queue, err := channel.QueueDeclarePassive(c.cfg.Place, true, false, false, false, nil)
	if err != nil {
		return amqp.Queue{}, rabbitAnswer(err)
	}
	return queue, nil
}

// Close implements [Consumer].
func (c *rabbitConsumer) Close() { c.close() }
