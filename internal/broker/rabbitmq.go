package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitPrefix begins the headers of attributes. The binding of AMQP allows it instead of "cloudEvents:", for clients whose
// names have no colon (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/amqp-protocol-binding.md).
const rabbitPrefix = "cloudEvents_"

// ownChannel is the size in bytes above which a message gets a separate channel, because a message over the server's limit
// ends its channel, and with it every other message under way there.
const ownChannel = 128 << 10

// rabbitConn is the connection of one publisher or consumer.
type rabbitConn struct {
	cfg    *Config
	dialer *dialer

	mu   sync.Mutex
	conn *amqp.Connection

	// blocked means that the server takes no messages, because it lacks memory or disk
	// (https://www.rabbitmq.com/docs/connection-blocked).
	blocked atomic.Bool
}

// connected returns the connection. The caller has locked mu.
func (c *rabbitConn) connected(ctx context.Context) (*amqp.Connection, error) {
	if c.conn != nil && !c.conn.IsClosed() {
		return c.conn, nil
	}
	var last error
	for _, host := range c.cfg.Address.Hosts {
		conn, err := c.connect(ctx, host)
		if err == nil {
			c.conn = conn
			c.blocked.Store(false)
			go func() {
				for state := range conn.NotifyBlocked(make(chan amqp.Blocking, 1)) {
					c.blocked.Store(state.Active)
				}
			}()
			return conn, nil
		}
		last = err
	}
	if refused, ok := errors.AsType[*amqp.Error](last); ok && refused.Server {
		return nil, &Error{Err: fmt.Errorf("%w: %s", ErrRefused, refused.Reason), Code: strconv.Itoa(refused.Code)}
	}
	if errors.Is(last, amqp.ErrCredentials) {
		return nil, &Error{Err: fmt.Errorf("%w: the account or its password is wrong", ErrRefused), Code: strconv.Itoa(amqp.AccessRefused)}
	}
	return nil, unreachable(last)
}

func (c *rabbitConn) connect(ctx context.Context, host string) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	account := &amqp.PlainAuth{Username: "guest", Password: "guest"} // what the server has by itself, for its own machine
	if c.cfg.Username != "" {
		account = &amqp.PlainAuth{Username: c.cfg.Username, Password: c.cfg.Password}
	}
	return amqp.DialConfig("amqp://"+host, amqp.Config{
		SASL: []amqp.Authentication{account}, Vhost: c.cfg.Address.VHost, Heartbeat: 10 * time.Second, Locale: "en_US",
		Properties: amqp.Table{"connection_name": "oncegate", "product": "oncegate"},
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := c.dialer.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			deadline, _ := ctx.Deadline() // ends a server that does not greet; the client removes it afterwards
			return conn, conn.SetDeadline(deadline)
		},
	})
}

func (c *rabbitConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:forbidigo // the deadline of a connection has no other clock
		c.conn = nil
	}
}

// rabbitPublisher publishes to an exchange with confirms and "mandatory", so that a message which no queue takes comes back.
type rabbitPublisher struct {
	rabbitConn
	exchange string

	shared *rabbitChannel // of small messages; guarded by mu
}

func newRabbitPublisher(cfg *Config, exchange string) *rabbitPublisher {
	return &rabbitPublisher{rabbitConn: rabbitConn{cfg: cfg, dialer: newDialer(cfg)}, exchange: exchange}
}

// rabbitChannel is a channel in confirm mode.
type rabbitChannel struct {
	*amqp.Channel
	closed chan *amqp.Error
	gone   chan struct{} // closed after reason is set
	reason *amqp.Error   // why the server closed the channel; nil if the connection ended
	asks   chan returnedAsk
}

// returnedAsk asks whether the message with an id came back.
type returnedAsk struct {
	id    string
	reply chan *amqp.Return
}

// open returns the channel of small messages, or a new one if separate is set.
func (p *rabbitPublisher) open(ctx context.Context, separate bool) (*rabbitChannel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	if !separate && p.shared != nil && !p.shared.IsClosed() {
		return p.shared, nil
	}
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		return nil, unreachable(err)
	}
	c := &rabbitChannel{
		Channel: channel, closed: channel.NotifyClose(make(chan *amqp.Error, 1)), gone: make(chan struct{}), asks: make(chan returnedAsk),
	}
	// Without a buffer, a return has been taken from this channel before the confirm of its message is read.
	go c.watch(channel.NotifyReturn(make(chan amqp.Return)))
	if !separate {
		p.shared = c
	}
	return c, nil
}

// watch collects the messages that came back, until the channel ends. It answers asks in turn with returns, so that an ask
// after a confirm sees the return before it.
func (c *rabbitChannel) watch(returns <-chan amqp.Return) {
	back := map[string]*amqp.Return{}
	for {
		select {
		case r, open := <-returns:
			if !open {
				returns = nil
				continue
			}
			r.Body = nil // only the reason is asked for, and an ask may never come
			back[r.MessageId] = &r
		case ask := <-c.asks:
			ask.reply <- back[ask.id]
			delete(back, ask.id)
		case reason := <-c.closed:
			c.reason = reason
			close(c.gone)
			return
		}
	}
}

// returned reports whether a confirmed message came back because no queue takes it.
func (c *rabbitChannel) returned(id string) (back *amqp.Return, ok bool) {
	ask := returnedAsk{id, make(chan *amqp.Return, 1)}
	select {
	case c.asks <- ask:
		return <-ask.reply, true
	case <-c.gone:
		return nil, false
	}
}

// Publish implements [Publisher].
func (p *rabbitPublisher) Publish(ctx context.Context, m *Message) (known bool, err error) {
	separate := len(m.Body) > ownChannel
	channel, err := p.open(ctx, separate)
	if err != nil {
		return false, err
	}
	if separate {
		defer channel.Close()
	}
	if p.blocked.Load() {
		return false, &Error{Err: fmt.Errorf("%w: it lacks memory or disk and takes no messages", ErrRefused), Code: "blocked"}
	}
	confirm, err := p.write(ctx, channel, m)
	if err != nil {
		return false, err
	}
	select {
	case <-confirm.Done():
	case <-channel.gone:
		return false, channel.ended(len(m.Body))
	case <-ctx.Done():
		return false, ended(ctx.Err(), true)
	}
	back, open := channel.returned(m.ID)
	switch {
	case back != nil:
		return false, &Error{Err: fmt.Errorf("%w: no queue takes it (%s)", ErrNoPlace, back.ReplyText), Code: strconv.Itoa(int(back.ReplyCode))}
	case confirm.Acked():
		return false, nil
	case !open || channel.IsClosed(): // the end of the channel answers every message under way like a refusal
		<-channel.gone
		return false, channel.ended(len(m.Body))
	}
	// A queue refused it, or failed. Other queues may have it.
	return false, &Error{Err: fmt.Errorf("%w: a queue did not take it", ErrRefused), Code: "nack", Uncertain: true}
}

// write sends the message. A server that stops reading delays the write; it returns at the end of ctx at the latest.
func (p *rabbitPublisher) write(ctx context.Context, channel *rabbitChannel, m *Message) (*amqp.DeferredConfirmation, error) {
	type written struct {
		confirm *amqp.DeferredConfirmation
		err     error
	}
	result := make(chan written, 1)
	go func() {
		confirm, err := channel.PublishWithDeferredConfirm(p.exchange, m.Place, true, false, rabbitMessage(m))
		result <- written{confirm, err}
	}()
	select {
	case w := <-result:
		switch {
		case w.err == nil:
			return w.confirm, nil
		case errors.Is(w.err, amqp.ErrClosed):
			return nil, unreachable(nil) // nothing was written
		}
		return nil, &Error{Err: fmt.Errorf("%w: %w", ErrLost, w.err), Uncertain: true}
	case <-ctx.Done():
		return nil, ended(ctx.Err(), true)
	}
}

// ended classifies a message that was under way when its channel ended.
func (c *rabbitChannel) ended(size int) error {
	if c.reason == nil || !c.reason.Server {
		return &Error{Err: ErrLost, Uncertain: true}
	}
	out := &Error{Code: strconv.Itoa(c.reason.Code)}
	switch {
	case c.reason.Code == amqp.PreconditionFailed && size > ownChannel: // its own channel: the server means this message
		out.Err = fmt.Errorf("%w: %s", ErrTooLarge, c.reason.Reason)
	case c.reason.Code == amqp.NotFound:
		out.Err = fmt.Errorf("%w: %s", ErrNoPlace, c.reason.Reason)
	case c.reason.Code == amqp.AccessRefused:
		out.Err = fmt.Errorf("%w: %s", ErrRefused, c.reason.Reason)
	default:
		out.Err, out.Uncertain = fmt.Errorf("%w: %s", ErrLost, c.reason.Reason), true
	}
	return out
}

func rabbitMessage(m *Message) amqp.Publishing {
	out := amqp.Publishing{
		Headers: amqp.Table{}, ContentType: m.ContentType, DeliveryMode: amqp.Persistent, MessageId: m.ID, AppId: "oncegate", Body: m.Body,
	}
	for _, a := range m.Attributes {
		out.Headers[rabbitPrefix+a.Name] = a.Value
	}
	return out
}

// Check implements [Publisher]. RabbitMQ does not tell which queues an exchange leads to, so only the exchange is checked.
func (p *rabbitPublisher) Check(ctx context.Context, _ string) ([]Fault, error) {
	p.mu.Lock()
	conn, err := p.connected(ctx)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, unreachable(err)
	}
	defer channel.Close()
	if p.exchange == "" {
		return nil, nil
	}
	err = channel.ExchangeDeclarePassive(p.exchange, "direct", true, false, false, false, nil)
	if refused, ok := errors.AsType[*amqp.Error](err); ok && refused.Code == amqp.NotFound {
		return []Fault{{Text: "there is no exchange " + p.exchange, Remedy: "declare the exchange, or correct exchange"}}, nil
	}
	return nil, nil // another type of exchange is a difference that the passive declaration may report
}

// Close implements [Publisher].
func (p *rabbitPublisher) Close() { p.close() }
