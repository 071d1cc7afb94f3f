package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/publish"
)

// Publish configures a target of kind publish.
type Publish struct {
	// Topic is the topic of Kafka.
	Topic string
	// Subject is the subject of NATS or the routing key of RabbitMQ. It may contain expressions in braces.
	Subject string
	// Stream is the stream of NATS that must take the messages. It is empty for any.
	Stream string
	// Exchange is the exchange of RabbitMQ. Empty is the default exchange.
	Exchange string

	// SASL is the mechanism by which the account is proved to Kafka. Empty means PLAIN.
	SASL string
	// MaxMessage is the largest message that is sent to Kafka, in bytes. 0 is Kafka's own default.
	MaxMessage int64
}

// sequenceKeyText is the expression in a subject that becomes the hash of the sequence key.
const sequenceKeyText = "sequence_key"

func (t *Target) publishKeys() []Key {
	p := &t.Publish
	return []Key{
		reference("url", &t.URL, brokerURL, "required", "The broker: `kafka://`, `kafka+ssl://`, `nats://`, `tls://` (NATS over TLS), `amqp://` or `amqps://`, and one host or several with commas between them. A user and a password in it are never printed."),
		value("topic", &p.Topic, words(verbatim), "required for Kafka", "The topic. Messages of one sequence key go to one partition."),
		value("subject", &p.Subject, words(verbatim), "required for NATS", "The subject of NATS, or the routing key of RabbitMQ. [Expressions](#expressions) in braces may stand in it, as in `orders.{body.country}`; `{sequence_key}` is a hash of the sequence key, in an ordered route."),
		value("stream", &p.Stream, words(verbatim), "any", "The stream of NATS that must take the messages. Another stream with the subject refuses them then."),
		value("exchange", &p.Exchange, words(verbatim), "the default exchange", "The exchange of RabbitMQ. The default exchange takes a message to the queue that `subject` names."),
		value("idempotent", &t.Idempotent, boolean, "`true`", "`true`: consumers recognise a message by its id, and a message whose acknowledgement was lost is published again under that id. `false`: it is left to a person.").starts(),
		value("key_window", &t.KeyWindow, duration, "for ever", "How long consumers or the stream remember an id. If an attempt has an unknown outcome, Oncegate makes no further attempt after this time."),
		reference("username", &t.Username, verbatim, "the account in `url`", "The account at the broker."),
		secrets("password", &t.Password, "the password in `url`", "The password of the account, as a list of secret references. For NATS without `username` it is a token or the content of a credentials file."),
		value("sasl", &p.SASL, oneOf(broker.SASLMechanisms()...), "`plain`", "How the account is proved to Kafka."),
		value("max_message", &p.MaxMessage, size, "1,000,012 bytes", "The largest message for Kafka, and the largest batch. The topic's `max.message.bytes` must allow it."),
		list("allow", &t.Allow, network, "none", "Private networks that the broker's names, and the names of further servers of its cluster, may lead to. An IP address in `url` is always allowed."),
	}
}

// brokerURL parses the address of a broker.
func brokerURL(s string) (string, error) {
	_, _, _, err := broker.ParseAddress(s)
	if err != nil {
		return "", fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "url: "))
	}
	return s, nil
}

// ofKind returns the keys that only one kind of broker has, with the values that they have.
func (p *Publish) ofKind(kind broker.Kind) (own, foreign map[string]string) {
	own, foreign = map[string]string{}, map[string]string{}
	for _, k := range []struct {
		name, value string
		kinds       []broker.Kind
	}{
		{"topic", p.Topic, []broker.Kind{broker.Kafka}},
		{"subject", p.Subject, []broker.Kind{broker.NATS, broker.RabbitMQ}},
		{"stream", p.Stream, []broker.Kind{broker.NATS}},
		{"exchange", p.Exchange, []broker.Kind{broker.RabbitMQ}},
	} {
		if slices.Contains(k.kinds, kind) {
			own[k.name] = k.value
		} else {
			foreign[k.name] = k.value
		}
	}
	return own, foreign
}

// publish checks a target of kind publish with package publish.
func (r *reader) publish(t *Target) {
	if len(t.Password) > 1 {
		t.node.Below("password").Fail("a broker takes one")
	}
	if t.URL == "" {
		t.node.FailKey("url is missing: the broker, such as nats://host:4222, kafka://host:9092 or amqps://host")
		return
	}
	kind := t.Broker().Address.Kind
	own, foreign := t.Publish.ofKind(kind)
	for name, value := range foreign {
		if value != "" {
			t.node.Below(name).Fail("%s has none; it has %s", kind, sortedList(slices.Collect(maps.Keys(own))))
			return
		}
	}
	n := t.node.Below("subject")
	_, texts, err := effect.SplitBraces(t.Publish.Subject)
	if err == nil && !r.compileValues(slices.DeleteFunc(texts, func(s string) bool { return s == sequenceKeyText }), false, &t.Values, n.Fail) {
		return
	}
	sender, err := publish.New(t.PublishConfig(nil))
	failLines(t.node.Below(""), err)
	if err == nil {
		sender.Close()
	}
}

// UsesSequenceKey reports whether the messages of the target go to a place that depends on the sequence key.
func (t *Target) UsesSequenceKey() bool {
	_, texts, err := effect.SplitBraces(t.Publish.Subject)
	return err == nil && slices.Contains(texts, sequenceKeyText)
}

// Broker returns how the broker of the target is reached.
func (t *Target) Broker() broker.Config {
	address, user, password, err := broker.ParseAddress(t.URL)
	if err != nil {
		return broker.Config{} // reported with the key url
	}
	cfg := broker.Config{Address: address, Username: user, Password: password, SASL: t.Publish.SASL, Allow: t.Allow, MaxMessage: int32(min(t.Publish.MaxMessage, 1<<31-1))}
	if t.Username != "" {
		cfg.Username = t.Username
	}
	if keys := values(t.Password); len(keys) > 0 {
		cfg.Password = string(keys[0].Value)
	}
	return cfg
}

// PublishConfig returns the configuration of the target for package publish. value computes an expression of the subject; nil
// is for a target that publishes nothing.
func (t *Target) PublishConfig(value func(*expression.Program) publish.Value) publish.Config {
	cfg := publish.Config{
		Broker: t.Broker(), Place: t.Publish.Subject, Within: t.Publish.Stream, Idempotent: t.Idempotent,
		Values: map[string]publish.Value{sequenceKeyText: func(call *effect.Call) (string, error) { return call.Event.SequenceKey, nil }},
	}
	switch cfg.Broker.Address.Kind {
	case broker.Kafka:
		cfg.Place = t.Publish.Topic
	case broker.RabbitMQ:
		cfg.Within = t.Publish.Exchange
	case broker.NATS:
	}
	for text, program := range t.Values {
		if value == nil {
			cfg.Values[text] = func(*effect.Call) (string, error) { return "", errUnbound }
		} else {
			cfg.Values[text] = value(program)
		}
	}
	return cfg
}

// checkPublished reports routes whose messages would have no place.
func (r *reader) checkPublished(s *Source) {
	for _, route := range s.Routes {
		if route.Target != nil && route.Target.UsesSequenceKey() && !route.Order.Ordered() {
			route.node.FailKey("order is missing: the subject of target %s contains {sequence_key}, which only an ordered route has", route.Target.Name)
		}
	}
}

// shownBroker returns the address of a broker without its account.
func shownBroker(address string) string {
	at, _, _, err := broker.ParseAddress(address)
	if err != nil {
		return ""
	}
	return at.String()
}
