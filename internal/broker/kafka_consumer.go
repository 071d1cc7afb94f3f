package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaAhead is the most that one request fetches from a broker, in bytes, unless a single batch is larger.
const kafkaAhead = 8 << 20

// kafkaConsumer consumes a topic as a member of a consumer group.
type kafkaConsumer struct {
	cfg    *ConsumerConfig
	dialer *dialer

	mu     sync.Mutex
	client *kgo.Client
	found  bool // the topic was there when the client was opened
}

func newKafkaConsumer(cfg *ConsumerConfig) *kafkaConsumer {
	return &kafkaConsumer{cfg: cfg, dialer: newDialer(&cfg.Config)}
}

func (c *kafkaConsumer) opened() (*kgo.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := kgo.NewClient(append(kafkaOptions(&c.cfg.Config, c.dialer),
		kgo.ConsumerGroup(c.cfg.Group), kgo.ConsumeTopics(c.cfg.Place),
		// A new group begins with the oldest message that the topic still has.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// No partition moves to another process between Take and Done.
		kgo.BlockRebalanceOnPoll(),
		// What was fetched ahead waits in memory.
		kgo.FetchMaxBytes(kafkaAhead),
		// A transaction that was rolled back never happened.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	if err != nil {
		return nil, err
	}
	c.client = client
	return client, nil
}

// Take implements [Consumer].
func (c *kafkaConsumer) Take(ctx context.Context, n int) ([]Received, error) {
	client, err := c.opened()
	if err != nil {
		return nil, err
	}
	// The client waits in silence for a topic that does not exist.
	if !c.found {
		if err := c.Reach(ctx); err != nil {
			c.Close() // a new client finds a topic that is created soon
			return nil, err
		}
		c.found = true
	}
	fetches := client.PollRecords(ctx, n)
	if records := fetches.Records(); len(records) > 0 {
		out := make([]Received, len(records))
		for i, r := range records {
			out[i] = kafkaReceived(r)
		}
		return out, nil
	}
	client.AllowRebalance()
	for _, e := range fetches.Errors() {
		if ctx.Err() == nil || !errors.Is(e.Err, ctx.Err()) {
			return nil, kafkaFetchError(e.Err)
		}
	}
	// The client connects again and again by itself, and says nothing about it.
	if last := c.dialer.last(); last != nil {
		return nil, unreachable(last)
	}
	return nil, ctx.Err()
}

// kafkaFetchError returns what an error of a fetch means.
func kafkaFetchError(err error) error {
	if errors.Is(err, kgo.ErrClientClosed) {
		return &Error{Err: ErrLost}
	}
	if answer := kafkaAnswer(err); answer != nil {
		return answer
	}
	if lost, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return &Error{Err: fmt.Errorf("%w: %s/%d: the broker deleted messages before they were consumed (offset %d to %d)", ErrRefused, lost.Topic, lost.Partition, lost.ConsumedTo, lost.ResetTo)}
	}
	return unreachable(err)
}

func kafkaReceived(r *kgo.Record) Received {
	out := Received{
		Header: http.Header{}, Body: r.Value, At: r.Timestamp, handle: r,
		Lane: fmt.Sprintf("%s/%d", r.Topic, r.Partition), Position: fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset),
	}
	for _, h := range r.Headers {
		addHeader(out.Header, h.Key, string(h.Value))
	}
	out.Header.Set("Kafka-Topic", r.Topic)
	if out.Header.Del("Kafka-Key"); r.Key != nil {
		out.Header.Set("Kafka-Key", string(r.Key))
	}
	return out
}

// records returns what Kafka gave for messages.
func records(messages []Received) []*kgo.Record {
	out := make([]*kgo.Record, 0, len(messages))
	for i := range messages {
		if r, ok := messages[i].handle.(*kgo.Record); ok {
			out = append(out, r)
		}
	}
	return out
}

// Done implements [Consumer]. It commits the offsets.
func (c *kafkaConsumer) Done(ctx context.Context, messages []Received) error {
	client, err := c.opened()
	if err != nil {
		return err
	}
	defer client.AllowRebalance()
	return client.CommitRecords(ctx, records(messages)...)
}

// Return implements [Consumer]. It sets the position of each partition back to the first of its messages.
func (c *kafkaConsumer) Return(_ context.Context, messages []Received) error {
	client, err := c.opened()
	if err != nil {
		return err
	}
	defer client.AllowRebalance()
	first := map[string]map[int32]kgo.EpochOffset{}
	for _, r := range records(messages) {
		of := first[r.Topic]
		if of == nil {
			of = map[int32]kgo.EpochOffset{}
			first[r.Topic] = of
		}
		if at, ok := of[r.Partition]; !ok || r.Offset < at.Offset {
			of[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset}
		}
	}
	client.SetOffsets(first)
	return nil
}

// Lag implements [Consumer].
func (c *kafkaConsumer) Lag(ctx context.Context) (int64, error) {
	client, err := c.opened()
	if err != nil {
		return 0, err
	}
	if !c.found {
		if err := c.Reach(ctx); err != nil { // the lag of a topic that does not exist is not 0
			return 0, err
		}
	}
	lags, err := kadm.NewClient(client).Lag(ctx, c.cfg.Group)
	if err != nil {
		return 0, unreachable(err)
	}
	lag := lags[c.cfg.Group]
	if err := lag.Error(); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return 0, unreachable(err)
	}
	return lag.Lag.Total(), nil
}

// Reach implements [Consumer].
func (c *kafkaConsumer) Reach(ctx context.Context) error {
	client, err := c.opened()
	if err != nil {
		return err
	}
	topics, err := kadm.NewClient(client).ListTopics(ctx, c.cfg.Place)
	if err != nil {
		if last := c.dialer.last(); last != nil {
			err = last
		}
		return unreachable(err)
	}
	err = topics[c.cfg.Place].Err
	switch answer := kafkaAnswer(err); {
	case err == nil:
		return nil
	case answer == nil:
		return unreachable(err)
	case errors.Is(answer, ErrNoPlace):
		answer.Err = fmt.Errorf("%w: there is no topic %s", ErrNoPlace, c.cfg.Place)
		return answer
	default:
		return answer
	}
}

// Close implements [Consumer].
func (c *kafkaConsumer) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		c.client.CloseAllowingRebalance()
		c.client, c.found = nil, false
	}
}
