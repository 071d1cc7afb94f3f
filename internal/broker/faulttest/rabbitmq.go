package faulttest

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQ returns the address of a server of RabbitMQ that tests may use, or "" if there is none. Its max_message_size must
// be [MaxMessage]. scripts/brokers starts one.
func RabbitMQ() string { return os.Getenv("ONCEGATE_TEST_RABBITMQ") } //nolint:forbidigo // says which server a test may use

var queues atomic.Int64

// NewRabbitMQ makes a queue at the server of [RabbitMQ].
func NewRabbitMQ(tb testing.TB, o Options) *Server {
	tb.Helper()
	uri, err := amqp.ParseURI(RabbitMQ())
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := amqp.Dial(RabbitMQ())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Place: fmt.Sprintf("%s-%d-%d", Place, os.Getpid(), queues.Add(1))}
	if !o.Empty {
		if _, err := channel.QueueDeclare(s.Place, true, false, false, false, nil); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _, _ = channel.QueueDelete(s.Place, false, false, false) })
	}
	s.Messages = func() []string { return rabbitMessages(tb, conn, s.Place, o.Empty) }
	fault := o.Fault
	fault.Settled = func() bool {
		own, err := conn.Channel()
		if err != nil {
			return false
		}
		defer own.Close()
		queue, err := own.QueueDeclarePassive(s.Place, true, false, false, false, nil)
		return err == nil && queue.Messages > 0
	}
	s.URL = "amqp://" + proxy(tb, fmt.Sprintf("%s:%d", uri.Host, uri.Port), func() Fault { return fault }, new(wiretap))
	return s
}

// rabbitMessages reads the queue and puts everything back.
func rabbitMessages(tb testing.TB, conn *amqp.Connection, queue string, empty bool) (out []string) {
	tb.Helper()
	if empty {
		return nil
	}
	channel, err := conn.Channel()
	if err != nil {
		tb.Fatal(err)
	}
	defer channel.Close() // the server requeues the messages
	for {
		d, found, err := channel.Get(queue, false)
		if err != nil {
			tb.Fatal(err)
		}
		if !found {
			return out
		}
		headers := []string{"content-type: " + d.ContentType, "message-id: " + d.MessageId}
		for name, value := range d.Headers {
			headers = append(headers, fmt.Sprintf("%s: %v", name, value))
		}
		out = append(out, fixed(headers, d.Body))
	}
}
