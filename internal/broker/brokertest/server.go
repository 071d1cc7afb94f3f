// Package brokertest runs brokers for tests: Kafka and NATS JetStream in the process of the test. RabbitMQ is used if
// ONCEGATE_TEST_RABBITMQ is the address of a server, because no Go module contains one.
package brokertest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
)

// Message is a message to publish with a broker's own client.
type Message struct {
	// Key chooses the partition of Kafka. Other brokers ignore it.
	Key string
	// Headers are the broker's own, by name.
	Headers map[string]string
	// ID is the id of the message for the broker: Nats-Msg-Id or the message-id of RabbitMQ. Kafka has none.
	ID   string
	Body []byte
}

// Server is a broker.
type Server struct {
	Kind broker.Kind
	// URL is its address.
	URL string

	driver
	places atomic.Int64
}

// driver is what differs between the brokers.
type driver interface {
	// Create makes a topic with so many partitions, a stream or a queue.
	create(ctx context.Context, place string, partitions int) error
	// Publish publishes messages in their order and returns when the broker has them.
	publish(ctx context.Context, place string, messages []Message) error
}

// timeout bounds what a test asks of a broker.
const timeout = 30 * time.Second

// Servers returns a server of each kind. They stop at the end of the test.
func Servers(tb testing.TB) []*Server {
	tb.Helper()
	out := []*Server{Kafka(tb), NATS(tb)}
	if url := faulttest.RabbitMQ(); url != "" {
		out = append(out, &Server{Kind: broker.RabbitMQ, URL: url, driver: rabbit{url}})
	}
	return out
}

// NewPlace makes a topic with so many partitions, a stream or a queue, and returns its name.
func (s *Server) NewPlace(tb testing.TB, partitions int) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	place := fmt.Sprintf("place-%d-%d", os.Getpid(), s.places.Add(1))
	if err := s.create(ctx, place, partitions); err != nil {
		tb.Fatalf("creating %s at %s: %v", place, s.Kind, err)
	}
	return place
}

// Publish publishes messages in their order.
func (s *Server) Publish(tb testing.TB, place string, messages ...Message) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	if err := s.publish(ctx, place, messages); err != nil {
		tb.Fatalf("publishing to %s: %v", s.Kind, err)
	}
}

// PlaceKey is the key of the configuration that names a place of the server.
func (s *Server) PlaceKey() string {
	return map[broker.Kind]string{broker.Kafka: "topic", broker.NATS: "stream", broker.RabbitMQ: "queue"}[s.Kind]
}

// Config returns how a consumer reaches a place of the server.
func (s *Server) Config(tb testing.TB, place, group string) broker.ConsumerConfig {
	tb.Helper()
	address, user, password, err := broker.ParseAddress(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return broker.ConsumerConfig{Config: broker.Config{Address: address, Username: user, Password: password}, Place: place, Group: group}
}
