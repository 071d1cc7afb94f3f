package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPrefix begins the headers of attributes
// (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/nats-protocol-binding.md).
const natsPrefix = "ce-"

// natsConn is the connection of one publisher or consumer.
type natsConn struct {
	cfg    *Config
	dialer *dialer

	mu     sync.Mutex
	conn   *nats.Conn
	js     jetstream.JetStream
	alive  context.Context //nolint:containedctx // ends when the connection is lost
	ending context.CancelCauseFunc
}

// Dial implements [nats.CustomDialer]. The client makes the TLS handshake itself, because a server greets in the clear.
func (c *natsConn) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	return c.dialer.plain(ctx, network, address)
}

// opened returns the connection, and a context that ends when it is lost.
func (c *natsConn) opened() (*nats.Conn, jetstream.JetStream, context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && !c.conn.IsClosed() {
		if !c.conn.IsConnected() {
			return nil, nil, nil, unreachable(c.dialer.last())
		}
		return c.conn, c.js, c.alive, nil
	}
	c.renew()
	conn, err := nats.Connect(c.servers(), c.options()...)
	if err != nil {
		if last := c.dialer.last(); last != nil {
			return nil, nil, nil, unreachable(last)
		}
		return nil, nil, nil, natsRefusal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, nil, &Error{Err: err}
	}
	c.conn, c.js = conn, js
	return conn, js, c.alive, nil
}

func (c *natsConn) renew() {
	c.alive, c.ending = context.WithCancelCause(context.Background())
}

func (c *natsConn) servers() string {
	servers := make([]string, len(c.cfg.Address.Hosts))
	for i, host := range c.cfg.Address.Hosts {
		servers[i] = "nats://" + host
	}
	return strings.Join(servers, ",")
}

func (c *natsConn) options() []nats.Option {
	out := []nats.Option{
		nats.Name("oncegate"), nats.SetCustomDialer(c), nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		// What cannot be sent at once must fail, because it would be sent after its attempt has ended.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ending(errors.Join(ErrLost, err))
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.renew()
		}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // every request reports its own error
	}
	if c.dialer.tls != nil {
		out = append(out, nats.Secure(c.dialer.tls)) // the client adds the name of each server
	}
	switch {
	case c.cfg.Username != "":
		out = append(out, nats.UserInfo(c.cfg.Username, c.cfg.Password))
	case strings.Contains(c.cfg.Password, "-----BEGIN NATS USER JWT-----"):
		out = append(out, nats.UserCredentialBytes([]byte(c.cfg.Password)))
	case c.cfg.Password != "":
		out = append(out, nats.Token(c.cfg.Password))
	}
	return out
}

func (c *natsConn) close() {
	c.mu.Lock()
	conn := c.conn
	c.conn = nil
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// natsRefusal returns the error for a connection that the server refused.
func natsRefusal(err error) error {
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return unreachable(&TLSError{unverified})
	}
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired) {
		return &Error{Err: fmt.Errorf("%w: the account or its password is wrong", ErrRefused), Code: "authorization"}
	}
	return unreachable(err)
}

// natsPublisher publishes to JetStream.
type natsPublisher struct {
	natsConn
	stream string // that must take the messages; empty for any
}

func newNATSPublisher(cfg *Config, stream string) *natsPublisher {
	return &natsPublisher{natsConn: natsConn{cfg: cfg, dialer: newDialer(cfg)}, stream: stream}
}

// Publish implements [Publisher].
func (p *natsPublisher) Publish(ctx context.Context, m *Message) (known bool, err error) {
	conn, js, alive, err := p.opened()
	if err != nil {
		return false, err
	}
	msg := natsMessage(m)
	if limit := conn.MaxPayload(); limit > 0 && int64(msg.Size()-len(msg.Subject)) > limit {
		return false, &Error{Err: tooLarge(msg.Size()-len(msg.Subject), limit, " of the server's max_payload")}
	}
	// The end of the connection ends the wait: the acknowledgement cannot come any more.
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(alive, func() { cancel(context.Cause(alive)) })()
	options := []jetstream.PublishOpt{jetstream.WithMsgID(m.ID)}
	if p.stream != "" {
		options = append(options, jetstream.WithExpectStream(p.stream))
	}
	ack, err := js.PublishMsg(waiting, msg, options...)
	switch {
	case err == nil:
		return ack.Duplicate, nil
	case ctx.Err() != nil:
		return false, ended(ctx.Err(), true)
	case waiting.Err() != nil:
		return false, &Error{Err: context.Cause(waiting), Uncertain: true}
	}
	return false, natsFailure(err)
}

// natsFailure classifies the answer to a message.
func natsFailure(err error) error {
	answer, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return &Error{Err: fmt.Errorf("%w: no stream takes the subject", ErrNoPlace)}
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return unreachable(nil) // nothing was written
	case errors.Is(err, nats.ErrMaxPayload):
		return &Error{Err: fmt.Errorf("%w: it is over the server's max_payload", ErrTooLarge)}
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, jetstream.ErrInvalidSubject):
		return &Error{Err: fmt.Errorf("%w: the subject is not valid", ErrNoPlace)}
	case !ok:
		return &Error{Err: fmt.Errorf("%w: %w", ErrLost, err), Uncertain: true}
	}
	out := &Error{Code: fmt.Sprint(uint16(answer.ErrorCode))}
	switch answer.ErrorCode {
	case jsStreamMessageExceedsMaximum:
		out.Err = fmt.Errorf("%w: it is over the stream's max_msg_size", ErrTooLarge)
	case jsStreamNotMatch, jetstream.JSErrCodeStreamNotFound:
		out.Err = fmt.Errorf("%w: another stream takes the subject", ErrNoPlace)
	default:
		out.Err = fmt.Errorf("%w: %s", ErrRefused, answer.Description)
	}
	return out
}

// Codes of JetStream that its client has no names for
// (https://github.com/nats-io/nats-server/blob/main/server/errors.json).
const (
	jsStreamMessageExceedsMaximum jetstream.ErrorCode = 10054
	jsStreamNotMatch              jetstream.ErrorCode = 10060
)

func natsMessage(m *Message) *nats.Msg {
	out := nats.NewMsg(m.Place)
	out.Data = m.Body
	for _, a := range m.Attributes {
		out.Header[natsPrefix+a.Name] = []string{percentEncoded(a.Value)}
	}
	if m.ContentType != "" {
		out.Header["content-type"] = []string{m.ContentType}
	}
	return out
}

// percentEncoded encodes what the bindings that follow HTTP do not allow in a header: the space, the double quote, the
// percent sign, and everything outside of printable ASCII
// (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/http-protocol-binding.md#3132-http-header-values).
func percentEncoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '"' || c == '%' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Check implements [Publisher]. Without a place it examines only the stream that must take the messages, if one is named.
func (p *natsPublisher) Check(ctx context.Context, place string) ([]Fault, error) {
	_, js, _, err := p.opened()
	if err != nil {
		return nil, err
	}
	name := p.stream
	if place != "" {
		if name, err = js.StreamNameBySubject(ctx, place); errors.Is(err, jetstream.ErrStreamNotFound) {
			return []Fault{{Text: "no stream takes subject " + place, Remedy: "create a stream with the subject, or correct subject"}}, nil
		} else if err != nil {
			return nil, fmt.Errorf("asking for the stream: %w", err)
		}
	}
	switch {
	case name == "":
		return nil, nil
	case p.stream != "" && name != p.stream:
		return []Fault{{Text: fmt.Sprintf("stream %s takes subject %s, and not %s", name, place, p.stream), Remedy: "set stream: " + name}}, nil
	}
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return []Fault{{Text: "there is no stream " + name, Remedy: "create the stream, or correct stream"}}, nil
	} else if err != nil {
		return nil, fmt.Errorf("asking for stream %s: %w", name, err)
	}
	return streamFaults(&stream.CachedInfo().Config), nil
}

// streamFaults returns what a stream does to the messages that it has acknowledged.
func streamFaults(cfg *jetstream.StreamConfig) (out []Fault) {
	add := func(warning bool, text, remedy string) {
		out = append(out, Fault{Text: "stream " + cfg.Name + " " + text, Remedy: remedy, Warning: warning})
	}
	if cfg.NoAck {
		add(false, "acknowledges nothing (no_ack), so nothing says whether it has a message", "turn no_ack off")
	}
	if cfg.Storage == jetstream.MemoryStorage {
		add(true, "keeps messages in memory only, and loses them with the server", "store it in files")
	}
	if cfg.Replicas < 3 {
		add(true, fmt.Sprintf("has %d replica(s), so the loss of one machine loses messages that were acknowledged or stops the stream", cfg.Replicas), "give it three replicas")
	}
	if cfg.Discard == jetstream.DiscardOld && (cfg.MaxMsgs > 0 || cfg.MaxBytes > 0 || cfg.MaxMsgsPerSubject > 0) {
		add(true, "discards its oldest messages when it is full, also those that nobody has read", "set discard: new")
	}
	out = append(out, Fault{Text: fmt.Sprintf("stream %s forgets the ids of messages", cfg.Name), Window: max(cfg.Duplicates, time.Nanosecond)})
	return out
}

// Close implements [Publisher].
func (p *natsPublisher) Close() { p.close() }
