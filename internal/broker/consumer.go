package broker

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ConsumerConfig says what to consume. Place and Group are required.
type ConsumerConfig struct {
	Config

	// Place is the topic of Kafka, the stream of NATS or the queue of RabbitMQ.
	Place string

	// Group is the name under which the broker remembers what was finished: a consumer group of Kafka, or a durable consumer
	// of JetStream. Processes with the same group share the messages. RabbitMQ needs none, because its queue is the group.
	Group string

	// Filter is the subject of the messages to consume, with the wildcards of NATS. Empty consumes the whole stream. Other
	// brokers have none.
	Filter string

	// ReturnAfter is how long NATS waits before it delivers a message again that was returned. 0 delivers it at once. Other
	// brokers have no such time.
	ReturnAfter time.Duration

	// Ordered has the messages of a lane delivered to one process at a time, in their order. Kafka does that by itself. NATS
	// then has one message under way at a time, and RabbitMQ one process that consumes.
	Ordered bool
}

// Check reports the first problem of the configuration.
func (c *ConsumerConfig) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Place == "" || c.Group == "" {
		return errors.New("a consumer needs a place and a group")
	}
	return nil
}

// NewConsumer makes a consumer. It does not connect.
func NewConsumer(cfg ConsumerConfig) (Consumer, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	switch cfg.Address.Kind {
	case Kafka:
		return newKafkaConsumer(&cfg), nil
	case NATS:
		return newNATSConsumer(&cfg), nil
	case RabbitMQ:
		return newRabbitConsumer(&cfg), nil
	}
	return nil, fmt.Errorf("unknown kind of broker %q", cfg.Address.Kind)
}

// addHeader adds a header of a message. Attributes of CloudEvents get their names in the HTTP binding.
func addHeader(to http.Header, name, value string) {
	for _, prefix := range []string{kafkaPrefix, natsPrefix, rabbitPrefix, "cloudEvents:"} {
		if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			name = "Ce-" + name[len(prefix):]
			break
		}
	}
	to.Add(name, value)
}

// percentDecoded undoes [percentEncoded]. It returns a text without valid encoding unchanged.
func percentDecoded(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}
