package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// kafkaPrefix begins the headers of attributes
// (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/kafka-protocol-binding.md).
const kafkaPrefix = "ce_"

// kafkaBatch is the default limit of Kafka for a batch (message.max.bytes), which is also the limit of a message.
const kafkaBatch = 1_000_012

// produceKey is the key of Kafka's request that publishes (https://kafka.apache.org/protocol#protocol_api_keys).
const produceKey = 0

// kafkaPublisher publishes to topics of Kafka, with acknowledgements of all in-sync replicas and the idempotent producer.
type kafkaPublisher struct {
	cfg    *Config
	dialer *dialer

	mu     sync.Mutex
	client *kgo.Client

	// suspect means that a connection was not made or lost, so the next message first asks whether a broker is there.
	suspect atomic.Bool

	// writes counts the requests to publish of which a part was written to a connection. While it does not change, no
	// message can have left this process.
	writes atomic.Uint64
}

func newKafkaPublisher(cfg *Config) *kafkaPublisher {
	p := &kafkaPublisher{cfg: cfg, dialer: newDialer(cfg)}
	p.suspect.Store(true)
	return p
}

// kafkaOptions returns what every client of Kafka needs.
func kafkaOptions(cfg *Config, d *dialer) []kgo.Opt {
	out := []kgo.Opt{
		kgo.SeedBrokers(cfg.Address.Hosts...), kgo.ClientID("oncegate"),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) { return d.dial(ctx, network, host) }),
	}
	if cfg.Username != "" {
		out = append(out, kgo.SASL(saslOf(cfg)))
	}
	return out
}

func saslOf(cfg *Config) sasl.Mechanism {
	account := scram.Auth{User: cfg.Username, Pass: cfg.Password}
	switch cfg.SASL {
	case "scram-sha-256":
		return account.AsSha256Mechanism()
	case "scram-sha-512":
		return account.AsSha512Mechanism()
	}
	return plain.Auth{User: cfg.Username, Pass: cfg.Password}.AsMechanism()
}

// limit returns the largest message that the client sends.
func (p *kafkaPublisher) limit() int32 {
	if p.cfg.MaxMessage > 0 {
		return p.cfg.MaxMessage
	}
	return kafkaBatch
}

// opened returns the client.
func (p *kafkaPublisher) opened() (*kgo.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	client, err := kgo.NewClient(append(kafkaOptions(p.cfg, p.dialer),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// A message that is not acknowledged in time fails, so that its attempt ends. The attempt is then unknown.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.ProducerBatchMaxBytes(p.limit()),
		// Messages that are published while a request is under way become one batch; a lone one must not wait.
		kgo.ProducerLinger(0),
		kgo.UnknownTopicRetries(1),
		kgo.WithHooks(p),
	)...)
	if err != nil {
		return nil, err
	}
	p.client = client
	return client, nil
}

// OnBrokerWrite implements [kgo.HookBrokerWrite].
func (p *kafkaPublisher) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, written int, _, _ time.Duration, err error) {
	if key == produceKey && (written > 0 || err == nil) {
		p.writes.Add(1)
	}
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (p *kafkaPublisher) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		p.suspect.Store(true)
	}
}

// OnBrokerDisconnect implements [kgo.HookBrokerDisconnect].
func (p *kafkaPublisher) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { p.suspect.Store(true) }

// reach asks whether a broker is there, so that a message fails at once where none is.
func (p *kafkaPublisher) reach(ctx context.Context, client *kgo.Client) error {
	if !p.suspect.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		if e := kafkaAnswer(err); e != nil {
			return e
		}
		if last := p.dialer.last(); last != nil {
			err = last
		}
		return unreachable(err)
	}
	p.suspect.Store(false)
	return nil
}

// Publish implements [Publisher].
func (p *kafkaPublisher) Publish(ctx context.Context, m *Message) (known bool, err error) {
	client, err := p.opened()
	if err != nil {
		return false, &Error{Err: err}
	}
	record := kafkaRecord(m)
	if size := recordSize(record); size > int(p.limit()) {
		return false, &Error{Err: tooLarge(size, int64(p.limit()), "; max_message raises it, if the topic's max.message.bytes allows that"), Code: kerr.MessageTooLarge.Message}
	}
	if err := p.reach(ctx, client); err != nil {
		return false, err
	}
	// The client ends before the caller does, so that the caller learns whether the message was sent.
	inner, cancel := earlier(ctx)
	defer cancel()
	before := p.writes.Load()
	result := make(chan error, 1)
	client.Produce(inner, record, func(_ *kgo.Record, err error) { result <- err })
	select {
	case err = <-result:
	case <-ctx.Done():
		return false, ended(ctx.Err(), true) // it may still go out
	}
	if err == nil {
		return false, nil
	}
	return false, p.failure(ctx, client, record, err, p.writes.Load() != before)
}

// earlier returns a context that ends a twentieth of the remaining time before ctx, at most half a second.
func earlier(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/20, 500*time.Millisecond))) //nolint:forbidigo // the timer of a context has no other clock
}

// failure classifies why a record was not acknowledged. wrote reports that a request to publish was written meanwhile.
func (p *kafkaPublisher) failure(ctx context.Context, client *kgo.Client, record *kgo.Record, err error, wrote bool) error {
	switch answer := kafkaAnswer(err); {
	case errors.Is(err, kerr.MessageTooLarge):
		return p.tooLargeHere(ctx, client, record, err)
	case answer != nil:
		return answer
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if last := p.dialer.last(); last != nil && !wrote {
			return unreachable(last)
		}
		if code, ok := errors.AsType[*kerr.Error](err); ok {
			return &Error{Err: fmt.Errorf("%w: %s", ErrRefused, code.Message), Code: code.Message, Uncertain: wrote}
		}
		return ended(fmt.Errorf("%w: %w", ErrLost, context.DeadlineExceeded), wrote)
	}
	return &Error{Err: fmt.Errorf("%w: %w", ErrLost, err), Uncertain: wrote}
}

// kafkaAnswer returns what an error of Kafka means by which it certainly did not store the message, or nil for an error
// that does not say so. The idempotent producer has Kafka recognise what an earlier try has stored.
func kafkaAnswer(err error) *Error {
	code, ok := errors.AsType[*kerr.Error](err)
	switch {
	case !ok:
		return nil
	case code == kerr.UnknownTopicOrPartition, code == kerr.UnknownTopicID, code == kerr.InvalidTopicException:
		return &Error{Err: fmt.Errorf("%w: %s", ErrNoPlace, code.Message), Code: code.Message}
	case code.Retriable:
		return nil // an earlier try may have been stored
	}
	return &Error{Err: fmt.Errorf("%w: %s", ErrRefused, code.Message), Code: code.Message}
}

// tooLargeHere decides about a batch that Kafka refused for its size. The record is too large only if it is larger than
// the topic's limit; otherwise the batch was, and max_message must be lower.
func (p *kafkaPublisher) tooLargeHere(ctx context.Context, client *kgo.Client, record *kgo.Record, err error) error {
	size := recordSize(record)
	out := &Error{Err: tooLarge(size, int64(p.limit()), " of max_message"), Code: kerr.MessageTooLarge.Message}
	if size > int(p.limit()) {
		return out
	}
	limit, derr := topicLimit(ctx, client, record.Topic)
	switch {
	case derr != nil:
		out.Err = fmt.Errorf("%w: the topic's max.message.bytes is less than max_message of %d: %w", ErrRefused, p.limit(), err)
	case int64(size) > limit:
		out.Err = tooLarge(size, limit, " of the topic's max.message.bytes")
	default:
		out.Err = fmt.Errorf("%w: the topic takes batches of %d bytes; set max_message: %d", ErrRefused, limit, limit)
	}
	return out
}

// topicLimit returns max.message.bytes of a topic.
func topicLimit(ctx context.Context, client *kgo.Client, topic string) (int64, error) {
	text, err := topicSetting(ctx, client, topic, "max.message.bytes")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// topicSetting returns a setting of a topic.
func topicSetting(ctx context.Context, client *kgo.Client, topic, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	config, err := found.On(topic, nil)
	if err == nil {
		err = config.Err
	}
	if err != nil {
		return "", err
	}
	for _, c := range config.Configs {
		if c.Key == name && c.Value != nil {
			return *c.Value, nil
		}
	}
	return "", fmt.Errorf("topic %s has no setting %s", topic, name)
}

func kafkaRecord(m *Message) *kgo.Record {
	r := &kgo.Record{Topic: m.Place, Value: m.Body}
	if m.Key != "" {
		r.Key = []byte(m.Key)
	}
	for _, a := range m.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: kafkaPrefix + a.Name, Value: []byte(a.Value)})
	}
	if m.ContentType != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "content-type", Value: []byte(m.ContentType)})
	}
	return r
}

// recordSize returns the approximate size of a batch with only this record: 61 bytes of the batch's header
// (https://kafka.apache.org/documentation/#recordbatch), and the record with its lengths.
func recordSize(r *kgo.Record) int {
	const batchHeader, recordHeader, headerLengths = 61, 21, 6
	size := batchHeader + recordHeader + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += headerLengths + len(h.Key) + len(h.Value)
	}
	return size
}

// Check implements [Publisher].
func (p *kafkaPublisher) Check(ctx context.Context, place string) ([]Fault, error) {
	client, err := p.opened()
	if err != nil {
		return nil, err
	}
	p.suspect.Store(true)
	if err := p.reach(ctx, client); err != nil {
		return nil, err
	}
	topics, err := kadm.NewClient(client).ListTopics(ctx, place)
	if err != nil {
		return nil, fmt.Errorf("asking for the topic: %w", err)
	}
	topic := topics[place]
	if topic.Err != nil {
		return []Fault{{Text: fmt.Sprintf("topic %s cannot be used: %s", place, topic.Err), Remedy: "create the topic, or correct topic"}}, nil //nolint:nilerr // the broker was asked, and this is its answer
	}
	var out []Fault
	for _, partition := range topic.Partitions.Sorted() {
		if len(partition.Replicas) < 2 {
			out = append(out, Fault{Text: fmt.Sprintf("topic %s has one replica, so the loss of one machine loses messages that were acknowledged", place), Remedy: "give the topic three replicas", Warning: true})
			break
		}
	}
	if text, err := topicSetting(ctx, client, place, "min.insync.replicas"); err == nil && text == "1" && len(out) == 0 {
		out = append(out, Fault{Text: fmt.Sprintf("topic %s acknowledges what one replica has (min.insync.replicas is 1)", place), Remedy: "set min.insync.replicas to 2", Warning: true})
	}
	if limit, err := topicLimit(ctx, client, place); err == nil && limit < int64(p.limit()) {
		out = append(out, Fault{Text: fmt.Sprintf("topic %s takes batches of %d bytes, and max_message is %d", place, limit, p.limit()), Remedy: fmt.Sprintf("set max_message: %d", limit)})
	}
	return out, nil
}

// Close implements [Publisher].
func (p *kafkaPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}
