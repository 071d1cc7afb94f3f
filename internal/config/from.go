package config

import (
	"cmp"
	"net/netip"
	"strings"

	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// messageProvider is the provider of sources that consume from a broker and name no other.
const messageProvider = "message"

// From configures from where a source consumes messages.
type From struct {
	// Address is the broker's, without the account.
	Address broker.Address

	// Stream is the stream of NATS, Topic the topic of Kafka and Queue the queue of RabbitMQ that the source consumes. Two of them
	// are empty.
	Stream, Topic, Queue string

	// Group is the name under which the broker remembers what was consumed. Empty means "oncegate-" and the name under which
	// the source was first registered.
	Group string

	// Username and Password are the account. Both are empty without one. Password has at most one element.
	Username string
	Password []Reference

	// SASL is how the account is proved to Kafka. Empty means plain.
	SASL string

	// Allow lists the private networks to which the broker's name may resolve.
	Allow []netip.Prefix

	urlUser, urlPassword string // the account in the address
}

// Place returns the name of the stream, topic or queue.
func (f *From) Place() string { return cmp.Or(f.Stream, f.Topic, f.Queue) }

// String returns the broker and the place in a form for people, without the account.
func (f *From) String() string {
	return f.Address.String() + ", " + f.PlaceKey() + " " + f.Place()
}

// PlaceKey returns the configuration key of the place: stream, topic or queue.
func (f *From) PlaceKey() string { return placeKeys[f.Address.Kind] }

// ConsumerConfig returns the configuration of the source's consumer for package broker. fallback is the name of the group
// unless the source has one.
func (s *Source) ConsumerConfig(fallback string) broker.ConsumerConfig {
	f := s.From
	out := broker.ConsumerConfig{
		Config: broker.Config{Address: f.Address, Username: cmp.Or(f.Username, f.urlUser), Password: f.urlPassword, SASL: f.SASL, Allow: f.Allow},
		Place:  f.Place(), Group: cmp.Or(f.Group, fallback), Ordered: s.OrdersArrival(),
	}
	if given := values(f.Password); len(given) > 0 {
		out.Password = string(given[0].Value)
	}
	return out
}

// OrdersArrival reports whether a route of the source carries out effects in the order of arrival.
func (s *Source) OrdersArrival() bool {
	for _, route := range s.Routes {
		if route.Order.Mode == sequence.Arrival {
			return true
		}
	}
	return false
}

// OverHTTP reports whether the source takes deliveries over HTTP. A source that consumes from a broker does so only if it has
// secrets that prove who delivers.
func (s *Source) OverHTTP() bool {
	return s.From == nil || s.Provider != nil && !s.Provider.IsMessage() && len(s.AllSecrets()) > 0
}

// placeKeys are the configuration keys of places, by the kind of broker.
var placeKeys = map[broker.Kind]string{broker.NATS: "stream", broker.Kafka: "topic", broker.RabbitMQ: "queue"}

// placeMeanings describes the place that each key names.
var placeMeanings = map[string]string{"stream": "a stream of NATS JetStream", "topic": "a topic of Kafka", "queue": "a queue of RabbitMQ"}

func (f *From) keys() []Key {
	url := new(string)
	if len(f.Address.Hosts) > 0 {
		*url = f.Address.String()
	}
	return []Key{
		reference("url", url, verbatim, "required", "The broker: `nats://`, `tls://` (NATS over TLS), `kafka://`, `kafka+ssl://`, `amqp://` or `amqps://`, and one host or several with commas between them. For RabbitMQ, the path is the virtual host. An account in it is never printed.").by(f.readURL),
		value("stream", &f.Stream, words(verbatim), "required for NATS", "The JetStream stream to consume. It must exist."),
		value("topic", &f.Topic, words(verbatim), "required for Kafka", "The topic to consume. It must exist."),
		value("queue", &f.Queue, words(verbatim), "required for RabbitMQ", "The queue to consume. It must exist."),
		value("group", &f.Group, words(checkedName), "`oncegate-` and the first name of the source", "The consumer group of Kafka, or the durable consumer of JetStream. Two installations that consume the same place need different groups, because processes with the same group share the messages."),
		reference("username", &f.Username, verbatim, "the account in `url`", "The account at the broker."),
		secrets("password", &f.Password, "the password in `url`", "The password of the account, as a list with one secret reference. For NATS, a password without `username` is a token, or the content of a credentials file."),
		value("sasl", &f.SASL, oneOf(broker.SASLMechanisms()...), "`plain`", "How the account is proved to Kafka: `plain`, `scram-sha-256` or `scram-sha-512`."),
		list("allow", &f.Allow, network, "none", "Private networks that the names of the broker, and the names of further servers of its cluster, may lead to. An IP address in `url` is always allowed."),
	}
}

// readURL reads the address of the broker.
func (f *From) readURL(r *reader, n *yamltree.Node) {
	text, ok := r.resolved(n)
	if !ok {
		return
	}
	var err error
	if f.Address, f.urlUser, f.urlPassword, err = broker.ParseAddress(text); err != nil {
		n.Fail("%s", strings.TrimPrefix(err.Error(), "url: "))
	}
}

// from reads from where a source consumes.
func (r *reader) from(n *yamltree.Node) *From {
	f := &From{}
	r.fields(n, f.keys())
	switch {
	case !n.IsMapping():
		if n.IsEmpty() {
			n.Fail("is empty; write url, and stream, topic or queue")
		}
		return f
	case n.Lacks("url"):
		n.FailKey("url is missing: the broker to consume from, such as nats://broker.internal")
		return f
	case !n.Member("url").Sound():
		return f
	}
	f.checkPlace(n)
	return f
}

// checkPlace checks that exactly the key is given that the kind of broker has.
func (f *From) checkPlace(n *yamltree.Node) {
	want := placeKeys[f.Address.Kind]
	for _, key := range []string{"stream", "topic", "queue"} {
		if at := n.Member(key); at != nil && key != want {
			at.FailKey("is %s; this url needs %s: the name of %s", placeMeanings[key], want, placeMeanings[want])
			return
		}
	}
	if n.Lacks(want) {
		n.FailKey("%s is missing: the name of %s", want, placeMeanings[want])
	}
}

// checkFrom checks from where a source consumes against its provider.
func (r *reader) checkFrom(s *Source) {
	at := s.node.Member("from")
	switch {
	case s.Provider == nil:
	case at == nil && s.Provider.IsMessage():
		s.node.FailKey("%s is for sources that consume from a broker, because the connection to it proves the sender: add from, or name another provider", s.Provider.Name())
	case at == nil || !at.Sound():
	case s.Provider.IsOperation():
		at.FailKey("operations answer their callers, and a broker takes no answers to them; use the provider message")
	case len(s.From.Password) > 1:
		at.Below("password").Fail("a broker takes one")
	default:
		cfg := s.ConsumerConfig(s.Name)
		failLines(at, cfg.Check())
	}
}

// defaultProvider is the provider of a source that names none.
func defaultProvider(n *yamltree.Node) string {
	if n.Member("from") != nil {
		return messageProvider
	}
	return n.Name()
}
