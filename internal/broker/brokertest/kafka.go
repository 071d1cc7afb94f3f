package brokertest

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
)

// kafka is a cluster of one broker in this process.
type kafka struct{ client *kgo.Client }

// Kafka starts a broker of Kafka's protocol.
func Kafka(tb testing.TB) *Server {
	tb.Helper()
	s := faulttest.NewKafka(tb, faulttest.Options{Empty: true})
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Kafka.ListenAddrs()...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return &Server{Kind: broker.Kafka, URL: s.URL, driver: kafka{client}}
}

func (k kafka) create(ctx context.Context, place string, partitions int) error {
	made, err := kadm.NewClient(k.client).CreateTopics(ctx, int32(partitions), 1, nil, place)
	if err != nil {
		return err
	}
	return made[place].Err
}

func (k kafka) publish(ctx context.Context, place string, messages []Message) error {
	records := make([]*kgo.Record, len(messages))
	for i := range messages {
		m := &messages[i]
		records[i] = &kgo.Record{Topic: place, Value: m.Body}
		if m.Key != "" {
			records[i].Key = []byte(m.Key)
		}
		for _, name := range sorted(m.Headers) {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: name, Value: []byte(m.Headers[name])})
		}
	}
	return k.client.ProduceSync(ctx, records...).FirstErr()
}

func sorted(headers map[string]string) []string {
	out := make([]string, 0, len(headers))
	for name := range headers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
