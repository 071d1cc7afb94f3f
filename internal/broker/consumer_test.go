package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/brokertest"
)

// patience is how long a test waits for a broker.
const patience = 60 * time.Second

func consumer(t *testing.T, cfg broker.ConsumerConfig) broker.Consumer {
	t.Helper()
	c, err := broker.NewConsumer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// take takes messages until there are at least n.
func take(t *testing.T, c broker.Consumer, n int) (out []broker.Received) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(out) < n {
		got, err := c.Take(ctx, n-len(out))
		if err != nil {
			t.Fatalf("taking %d messages, after %d: %v", n, len(out), err)
		}
		out = append(out, got...)
	}
	return out
}

// none checks that nothing comes.
func none(t *testing.T, c broker.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for ctx.Err() == nil {
		got, err := c.Take(ctx, 100)
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		if len(got) > 0 {
			t.Fatalf("%d messages came: %s", len(got), bodies(got))
		}
	}
}

func done(t *testing.T, c broker.Consumer, messages []broker.Received) {
	t.Helper()
	if err := c.Done(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
}

func bodies(messages []broker.Received) []string {
	out := make([]string, len(messages))
	for i := range messages {
		out[i] = string(messages[i].Body)
	}
	return out
}

// numbered returns the messages first to last, all with one key.
func numbered(first, last int) (messages []brokertest.Message, texts []string) {
	for i := first; i <= last; i++ {
		text := fmt.Sprint(i)
		texts = append(texts, text)
		messages = append(messages, brokertest.Message{Key: "k", Body: []byte(text)})
	}
	return messages, texts
}

// TestConsumerOrder checks that messages of a lane come in their order, each with its own position.
func TestConsumerOrder(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			place := s.NewPlace(t, 3)
			messages, want := numbered(1, 200)
			s.Publish(t, place, messages...)
			c := consumer(t, s.Config(t, place, "g"))
			got := take(t, c, 200)
			if !slices.Equal(bodies(got), want) {
				t.Errorf("order: %v", bodies(got))
			}
			positions := map[string]bool{}
			for i := range got {
				m := &got[i]
				positions[m.Position] = true
				if m.Lane != got[0].Lane || !strings.HasPrefix(m.Lane, place) {
					t.Errorf("lane %q of message %d, and %q of the first", m.Lane, i, got[0].Lane)
				}
				if age := time.Since(m.At); s.Kind != broker.RabbitMQ && (age < -time.Second || age > time.Minute) {
					t.Errorf("message %d is from %s", i, m.At)
				}
			}
			if s.Kind != broker.RabbitMQ && (len(positions) != 200 || positions[""]) {
				t.Errorf("%d positions of 200 messages", len(positions))
			}
			done(t, c, got)
		})
	}
}

// TestConsumerRedelivers checks that what was not finished comes again, and what was finished does not.
func TestConsumerRedelivers(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			place := s.NewPlace(t, 1)
			messages, want := numbered(1, 9)
			s.Publish(t, place, messages...)
			first := consumer(t, s.Config(t, place, "g"))
			got := take(t, first, 9)
			done(t, first, got[:4])
			before := got[4].Position
			if s.Kind == broker.NATS {
				if err := first.Return(t.Context(), got[4:]); err != nil { // it would come after a minute by itself
					t.Fatal(err)
				}
			}
			first.Close()

			second := consumer(t, s.Config(t, place, "g"))
			again := take(t, second, 5)
			if !slices.Equal(bodies(again), want[4:]) || again[0].Position != before {
				t.Errorf("after a close without Done: %v at %s, want %v at %s", bodies(again), again[0].Position, want[4:], before)
			}
			done(t, second, again)
			none(t, second)
			second.Close()
			none(t, consumer(t, s.Config(t, place, "g")))
			if s.Kind == broker.RabbitMQ { // its queue is the only group
				return
			}
			if other := take(t, consumer(t, s.Config(t, place, "other")), 1); string(other[0].Body) != "1" {
				t.Errorf("another group begins with %s", other[0].Body)
			}
		})
	}
}

// TestConsumerReturns checks that what is returned comes again, before later messages.
func TestConsumerReturns(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			place := s.NewPlace(t, 1)
			messages, want := numbered(1, 8)
			s.Publish(t, place, messages...)
			cfg := s.Config(t, place, "g")
			cfg.Ordered = true
			c := consumer(t, cfg)
			few := 4
			if s.Kind == broker.NATS {
				few = 1 // one is under way at a time
			}
			if err := c.Return(t.Context(), take(t, c, few)); err != nil {
				t.Fatal(err)
			}
			var got []broker.Received
			for len(got) < len(want) {
				next := take(t, c, 1)
				done(t, c, next)
				got = append(got, next...)
			}
			if s.Kind == broker.RabbitMQ {
				slices.SortFunc(got, func(a, b broker.Received) int { return bytes.Compare(a.Body, b.Body) }) // it had sent the later ones ahead
			}
			if !slices.Equal(bodies(got), want) {
				t.Errorf("after a return: %v, want %v", bodies(got), want)
			}
			none(t, c)
		})
	}
}

// TestConsumersShare checks that two consumers of a group get every message together, also those that one of them left
// unfinished.
func TestConsumersShare(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			place := s.NewPlace(t, 4)
			one, two := consumer(t, s.Config(t, place, "g")), consumer(t, s.Config(t, place, "g"))
			seen := map[string]int{}
			count := func(messages []broker.Received) {
				for _, body := range bodies(messages) {
					seen[body]++
				}
			}
			// Kafka divides the partitions when both are members, so both must ask.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			next, shares := 0, [2]int{}
			for shares[0] == 0 || shares[1] == 0 {
				if ctx.Err() != nil {
					t.Fatalf("one of the consumers gets nothing: %v", shares)
				}
				messages, _ := numbered(next+1, next+20)
				for i := range messages {
					messages[i].Key = fmt.Sprint("key-", i)
				}
				next += 20
				s.Publish(t, place, messages...)
				for i, c := range []broker.Consumer{one, two} {
					wait, cancel := context.WithTimeout(ctx, time.Second)
					got, err := c.Take(wait, 5)
					cancel()
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Fatal(err)
					}
					shares[i] += len(got)
					count(got)
					if len(got) > 0 {
						done(t, c, got)
					}
				}
			}
			one.Close() // the other one gets the rest
			for len(seen) < next {
				got, err := two.Take(ctx, 100)
				if err != nil {
					t.Fatalf("%d of %d messages came: %v", len(seen), next, err)
				}
				count(got)
				if len(got) > 0 {
					done(t, two, got)
				}
			}
		})
	}
}

// TestConsumerLag checks that the lag counts what is not finished.
func TestConsumerLag(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			place := s.NewPlace(t, 2)
			messages, _ := numbered(1, 10)
			s.Publish(t, place, messages...)
			c := consumer(t, s.Config(t, place, "g"))
			lag := func(want int64) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for {
					got, err := c.Lag(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if got == want {
						return
					}
					if s.Kind != broker.RabbitMQ { // which counts a little later
						t.Fatalf("lag %d, want %d", got, want)
					}
				}
			}
			got := take(t, c, 4)
			done(t, c, got)
			if s.Kind != broker.RabbitMQ { // which has sent the others ahead
				lag(6)
			}
			done(t, c, take(t, c, 6))
			lag(0)
		})
	}
}

// TestConsumerHeaders checks that the attributes of a CloudEvent have one form, and that a message cannot choose what the
// broker says about it.
func TestConsumerHeaders(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			prefix := map[broker.Kind]string{broker.Kafka: "ce_", broker.NATS: "ce-", broker.RabbitMQ: "cloudEvents:"}[s.Kind]
			place := s.NewPlace(t, 1)
			s.Publish(t, place, brokertest.Message{
				Key: "k-1", ID: "m-1", Body: []byte("{}"),
				Headers: map[string]string{prefix + "id": "1234-1234-1234", prefix + "source": "/mycontext", prefix + "type": "com.example.someevent", "traceparent": "t", "Kafka-Topic": "forged", "Nats-Subject": "forged", "Amqp-Routing-Key": "forged"},
			})
			got := take(t, consumer(t, s.Config(t, place, "g")), 1)[0].Header
			want := map[string]string{"Ce-Id": "1234-1234-1234", "Ce-Source": "/mycontext", "Ce-Type": "com.example.someevent", "Traceparent": "t"}
			switch s.Kind {
			case broker.Kafka:
				want["Kafka-Topic"], want["Kafka-Key"] = place, "k-1"
			case broker.NATS:
				want["Nats-Subject"], want["Nats-Msg-Id"] = place+".created", "m-1"
			case broker.RabbitMQ:
				want["Amqp-Routing-Key"], want["Amqp-Message-Id"], want["Content-Type"] = place, "m-1", "application/json"
			}
			for name, value := range want {
				if !slices.Equal(got[name], []string{value}) {
					t.Errorf("%s is %q, want %q", name, got[name], value)
				}
			}
		})
	}
}

// TestConsumerFaults checks what a consumer says about a place that does not exist and a broker that is not there.
func TestConsumerFaults(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			missing := consumer(t, s.Config(t, "missing", "g"))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := missing.Reach(ctx); !errors.Is(err, broker.ErrNoPlace) {
				t.Errorf("reaching a place that does not exist: %v", err)
			}
			if _, err := missing.Take(ctx, 1); !errors.Is(err, broker.ErrNoPlace) {
				t.Errorf("taking from a place that does not exist: %v", err)
			}
			if err := consumer(t, s.Config(t, s.NewPlace(t, 1), "g")).Reach(ctx); err != nil {
				t.Errorf("reaching a place: %v", err)
			}

			closed, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			cfg := s.Config(t, "any", "g")
			cfg.Address.Hosts = []string{closed.Addr().String()}
			_ = closed.Close()
			ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			down := consumer(t, cfg)
			if err := down.Reach(ctx); !errors.Is(err, broker.ErrUnreachable) {
				t.Errorf("reaching a broker that is down: %v", err)
			}
			if _, err := down.Take(ctx, 1); !errors.Is(err, broker.ErrUnreachable) {
				t.Errorf("taking from a broker that is down: %v", err)
			}
		})
	}
}

// TestOrderedConsumers checks that a second consumer of an ordered group gets nothing while messages of a lane are under way.
func TestOrderedConsumers(t *testing.T) {
	t.Parallel()
	for _, s := range brokertest.Servers(t) {
		t.Run(string(s.Kind), func(t *testing.T) {
			t.Parallel()
			place := s.NewPlace(t, 1)
			messages, want := numbered(1, 4)
			s.Publish(t, place, messages...)
			if s.Kind == broker.NATS { // the group exists with other settings
				before := consumer(t, s.Config(t, place, "g"))
				if _, err := before.Lag(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			cfg := s.Config(t, place, "g")
			cfg.Ordered = true
			one, two := consumer(t, cfg), consumer(t, cfg)
			got := take(t, one, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if other, _ := two.Take(ctx, 10); len(other) > 0 {
				t.Fatalf("%v is under way, and another consumer got %v", bodies(got), bodies(other))
			}
			for {
				done(t, one, got[len(got)-1:])
				if len(got) == len(want) {
					break
				}
				got = append(got, take(t, one, 1)...)
			}
			if !slices.Equal(bodies(got), want) {
				t.Errorf("order: %v", bodies(got))
			}
		})
	}
}
