// Package broker publishes messages to Kafka, NATS JetStream and RabbitMQ, and consumes them from there. The scheme of
// an address chooses the broker.
//
// [NewPublisher] and [NewConsumer] make clients that connect at the first use, and again after a connection was lost. A message
// counts as published when the broker has acknowledged that all replicas that it requires have stored it. Only
// [Consumer.Done] acknowledges consumed messages, so the broker delivers unfinished ones again.
//
// Messages are CloudEvents 1.0 in binary mode (https://github.com/cloudevents/spec): each attribute is a header, named as
// the binding of the broker's protocol says. The package knows neither storage nor what an event or an effect is.
package broker

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Config says how to reach a broker. Address is required.
type Config struct {
	Address Address

	// Username and Password are the account at the broker. Both are empty without an account. For NATS, a password without a
	// username is a token, or the content of a credentials file.
	Username, Password string

	// SASL is the mechanism by which the account is proved to Kafka, one of [SASLMechanisms]. Empty means PLAIN.
	SASL string

	// Allow lists the private networks that the names of the broker, and of further servers of its cluster, may resolve to. An
	// IP address in Address is always allowed.
	Allow []netip.Prefix

	// TLS is for servers with private certificates. nil uses the system's roots and TLS 1.2 or newer.
	TLS *tls.Config

	// Resolver resolves names. It defaults to the standard library's.
	Resolver *net.Resolver

	// MaxMessage is the largest message that Kafka takes, in bytes with its headers, and the most that one batch has. 0
	// is Kafka's own default of 1,000,012 bytes. Other brokers tell their limits themselves.
	MaxMessage int32
}

// Attribute is an attribute of a CloudEvent. Its name has lower-case letters and digits only.
type Attribute struct{ Name, Value string }

// Message is a message to publish.
type Message struct {
	// ID is the same for every attempt to publish the message. JetStream recognises it for as long as its stream says.
	ID string

	// Place is the topic of Kafka, the subject of NATS or the routing key of RabbitMQ.
	Place string

	// Key chooses the partition of Kafka: messages with the same key keep their order. Empty means any partition.
	Key string

	Attributes  []Attribute
	ContentType string
	Body        []byte
}

// Publisher publishes messages. It is safe for concurrent use.
type Publisher interface {
	// Publish returns when the broker has acknowledged the message. known reports that the broker had a message with this
	// id already. Every error is an [*Error].
	Publish(ctx context.Context, m *Message) (known bool, err error)

	// Check connects and returns what would lose, double or refuse messages published to the place. err means that the
	// broker could not be asked.
	Check(ctx context.Context, place string) ([]Fault, error)

	// Close ends the connections. Messages under way fail.
	Close()
}

// Fault is something that a broker's configuration does to messages.
type Fault struct {
	// Text describes the fault, and Remedy names the setting to change.
	Text, Remedy string

	// Window is how long the broker recognises the ids of messages, if the fault is that it forgets them. It is 0 for every
	// other fault.
	Window time.Duration

	// Warning means that messages arrive, but with less safety than they could.
	Warning bool
}

// Received is a message that a broker delivered.
type Received struct {
	// Header contains the attributes of a CloudEvent as the HTTP binding names them (Ce-Id, Ce-Type, ...), the content
	// type, and every other header under its own name. Properties that are no headers of the broker are added as headers:
	// Kafka-Topic and Kafka-Key; Nats-Subject; Amqp-Message-Id, Amqp-Type and Amqp-Routing-Key.
	Header http.Header
	Body   []byte

	// Lane is what the broker keeps in order: a topic with its partition, a stream or a queue.
	Lane string

	// Position identifies the message in the broker: a topic, partition and offset, or a stream and its sequence number. It
	// is empty for RabbitMQ, which has no positions.
	Position string

	// At is when the broker got the message. It is zero if the broker does not say.
	At time.Time

	handle any // what the consumer acknowledges
}

// Consumer receives messages for a group of processes that share them. Only one goroutine may use it.
type Consumer interface {
	// Take waits until there are messages, and returns at most n. An error means that the broker cannot be reached or does
	// not have the place; the next call tries again.
	Take(ctx context.Context, n int) ([]Received, error)

	// Done acknowledges messages that were taken. The messages of a lane must be acknowledged in their order. An error means
	// that some of them come again.
	Done(ctx context.Context, messages []Received) error

	// Return has the broker deliver messages again, to this consumer or to another one. Kafka delivers them before the later
	// messages of their lane, and so do the other brokers to an Ordered consumer.
	Return(ctx context.Context, messages []Received) error

	// Lag returns how many messages the group has not finished.
	Lag(ctx context.Context) (int64, error)

	// Reach connects and returns an error if the broker does not have the place. It changes nothing at the broker.
	Reach(ctx context.Context) error

	// Close ends the connections. What was taken and not finished is delivered again.
	Close()
}
