package broker

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/egress"
)

// dialTimeout bounds one connection with its TLS handshake.
const dialTimeout = 10 * time.Second

// TLSError means that the TLS handshake with a broker failed.
type TLSError struct{ Err error }

// Error implements error.
func (e *TLSError) Error() string { return "TLS: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TLSError) Unwrap() error { return e.Err }

// dialer makes the connections of one publisher or consumer. It remembers the last failure, because the clients of
// brokers replace it by an error of their own.
type dialer struct {
	guard  *egress.Guard
	tls    *tls.Config // nil connects in the clear
	failed atomic.Pointer[error]
}

func newDialer(cfg *Config) *dialer {
	d := &dialer{guard: egress.New(egress.Config{Allow: append(cfg.Address.named(), cfg.Allow...), Resolver: cfg.Resolver, Timeout: dialTimeout})}
	if cfg.Address.Secure {
		d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.TLS != nil {
			d.tls = cfg.TLS.Clone()
		}
	}
	return d
}

// plain connects without TLS. The guard checks the address.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.guard.DialContext(ctx, network, address)
	d.remember(err)
	return conn, err
}

// dial connects, with TLS if the address asks for it.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.plain(ctx, network, address)
	if err != nil || d.tls == nil {
		return conn, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secure := tls.Client(conn, d.tlsFor(address))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		err = &TLSError{err}
		d.remember(err)
		return nil, err
	}
	return secure, nil
}

func (d *dialer) remember(err error) {
	if err == nil {
		d.failed.Store(nil)
		return
	}
	d.failed.Store(&err)
}

// last returns why the last connection was not made, or nil.
func (d *dialer) last() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// tlsFor returns the configuration for a server. Its certificate must have the server's name.
func (d *dialer) tlsFor(address string) *tls.Config {
	out := d.tls.Clone()
	out.ServerName, _, _ = net.SplitHostPort(address)
	return out
}

// NewPublisher makes a publisher. It does not connect. within is the stream of NATS that must take the messages, where
// empty is any stream, or the exchange of RabbitMQ, where empty is the default exchange.
func NewPublisher(cfg Config, within string) (Publisher, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	switch cfg.Address.Kind {
	case Kafka:
		return newKafkaPublisher(&cfg), nil
	case NATS:
		return newNATSPublisher(&cfg, within), nil
	case RabbitMQ:
		return newRabbitPublisher(&cfg, within), nil
	}
	return nil, fmt.Errorf("unknown kind of broker %q", cfg.Address.Kind)
}
