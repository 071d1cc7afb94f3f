package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// BufferMode says which deliveries go through the buffer.
type BufferMode string

// The modes of the buffer.
const (
	// BufferUnavailable keeps the deliveries that the gate cannot record.
	BufferUnavailable BufferMode = "unavailable"
	// BufferAlways keeps every delivery, and records it afterwards.
	BufferAlways BufferMode = "always"
)

// The defaults of a buffer.
const (
	defaultBufferStream   = "oncegate"
	defaultBufferReplicas = 3
	defaultBufferAfter    = 2 * time.Second
)

// Buffer configures the stream that keeps verified deliveries while the database cannot record them.
type Buffer struct {
	// Address is that of the NATS servers, without the account. It has no hosts if there is no buffer.
	Address broker.Address

	// Stream is the JetStream stream. Empty means "oncegate".
	Stream string

	// Replicas is how many servers store each delivery before it is acknowledged. 0 means 3.
	Replicas int

	// Mode says which deliveries go through the buffer. Empty means [BufferUnavailable].
	Mode BufferMode

	// After is how long a delivery waits for its commit before it is buffered. 0 means two seconds.
	After time.Duration

	// Username and Password are the account. Both are empty without one. Password has at most one element.
	Username string
	Password []Reference

	// Allow lists the private networks to which the names of the servers may resolve.
	Allow []netip.Prefix

	urlUser, urlPassword string // the account in the address
}

// On reports whether there is a buffer.
func (b *Buffer) On() bool { return len(b.Address.Hosts) > 0 }

// Always reports whether every delivery goes through the buffer.
func (b *Buffer) Always() bool { return b.On() && b.Mode == BufferAlways }

// Wait returns how long a delivery waits for its commit before it is buffered.
func (b *Buffer) Wait() time.Duration { return cmp.Or(b.After, defaultBufferAfter) }

// StreamConfig returns the configuration of the stream for package broker.
func (b *Buffer) StreamConfig() broker.StreamConfig {
	out := broker.StreamConfig{
		Config: broker.Config{Address: b.Address, Username: cmp.Or(b.Username, b.urlUser), Password: b.urlPassword, Allow: b.Allow},
		Name:   cmp.Or(b.Stream, defaultBufferStream), Replicas: cmp.Or(b.Replicas, defaultBufferReplicas),
	}
	if given := values(b.Password); len(given) > 0 {
		out.Password = string(given[0].Value)
	}
	return out
}

// Buffers reports whether the buffer keeps deliveries of the source. Callers of operations wait for an answer that only the
// database has. A source that is consumed from a broker leaves its messages there. Effects in the order of arrival would overtake
// buffered ones, unless every delivery goes through the buffer.
func (c *Config) Buffers(s *Source) bool {
	return c.Buffer.On() && s.OverHTTP() && s.From == nil && s.Provider != nil && !s.Provider.IsOperation() && (c.Buffer.Always() || !s.OrdersArrival())
}

func (b *Buffer) keys() []Key {
	url := new(string)
	if b.On() {
		*url = b.Address.String()
	}
	return []Key{
		reference("url", url, b.readAddress, "no buffer", "The NATS servers: `nats://` or `tls://` (NATS over TLS), and one host or several with commas between them. An account in it is never printed.").from("ONCEGATE_BUFFER_URL"),
		value("stream", &b.Stream, words(checkedName), "`oncegate`", "The JetStream stream. Oncegate makes it if there is none, with the subjects `<stream>.>`. Two installations need two streams."),
		value("replicas", &b.Replicas, integer(1), "`3`", "How many servers store a delivery before it is acknowledged. `1` is for development: the loss of that server loses what it keeps.").from("ONCEGATE_BUFFER_REPLICAS"),
		value("when", &b.Mode, oneOf(BufferUnavailable, BufferAlways), "`unavailable`", "`unavailable`: deliveries go to the buffer while the gate cannot record them. `always`: every delivery goes to the buffer, and the gate records it afterwards.").from("ONCEGATE_BUFFER_WHEN"),
		value("after", &b.After, duration, "`2s`", "How long a delivery waits for its commit before it goes to the buffer; shorter than `gate.deadline`."),
		reference("username", &b.Username, verbatim, "the account in `url`", "The account at the servers."),
		secrets("password", &b.Password, "the password in `url`", "The password of the account, as a list with one secret reference. Without `username` it is a token, or the content of a credentials file."),
		list("allow", &b.Allow, network, "none", "Private networks that the names of the servers may lead to. An IP address in `url` is always allowed.").from("ONCEGATE_BUFFER_ALLOW, separated by commas"),
	}
}

// readAddress reads the address of the servers, and the account in it.
func (b *Buffer) readAddress(text string) (string, error) {
	address, user, password, err := broker.ParseAddress(text)
	switch {
	case err != nil:
		return "", errors.New(strings.TrimPrefix(err.Error(), "url: "))
	case address.Kind != broker.NATS:
		return "", errors.New("the buffer is a stream of NATS JetStream: want nats:// or tls://")
	}
	b.Address, b.urlUser, b.urlPassword = address, user, password
	return address.String(), nil
}

// checkBuffer checks the buffer against the gate.
func (r *reader) checkBuffer(cfg *Config) {
	b, n := &cfg.Buffer, r.root.Member("buffer")
	switch {
	case n != nil && !n.Sound():
		return
	case n == nil:
		n = r.root.Below("buffer")
	case n.Lacks("url") && !b.On():
		n.FailKey("url is missing: the NATS servers, such as nats://a:4222,b:4222,c:4222")
		return
	case len(b.Password) > 1:
		n.Below("password").Fail("NATS takes one")
		return
	}
	if !b.On() {
		return
	}
	stream := b.StreamConfig()
	failLines(n, stream.Check())
	if deadline := cmp.Or(cfg.Gate.Deadline, gate.DefaultDeadline); b.Wait() >= deadline && r.sound("gate.deadline") {
		n.Below("after").Fail("must be shorter than gate.deadline, which is %s", yamltree.FormatDuration(deadline))
	}
}

// bufferWarnings returns what the buffer does not keep, or not safely.
func bufferWarnings(cfg *Config) (out []string) {
	b := &cfg.Buffer
	if !b.On() {
		return nil
	}
	if n := b.StreamConfig().Replicas; n < defaultBufferReplicas {
		out = append(out, fmt.Sprintf("buffer.replicas is %d: the loss of one NATS server loses deliveries that were acknowledged; set 3, except in development", n))
	}
	for _, s := range cfg.Sources {
		if s.OrdersArrival() && !s.Disabled && s.From == nil && !b.Always() {
			out = append(out, fmt.Sprintf("sources.%s: a route is in the order of arrival, so its deliveries are not buffered and are answered with 503 while the database is away; buffer.when: always buffers them too", s.Name))
		}
	}
	return out
}
