// Package faulttest runs brokers whose connections fail as a test asks: Kafka by kfake, and NATS by the server itself.
// RabbitMQ is used where a test names a server.
package faulttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// Place is the topic or stream that every server has. The stream takes the subjects [Subject] and below.
const (
	Place   = "orders"
	Subject = "orders.paid"
)

// The account that a server with [Options.Account] asks for.
const (
	Username = "oncegate"
	Password = "canary-password"
)

// MaxMessage is the largest message that servers take, in bytes.
const MaxMessage = 1_000_012

// Options configure a server. The zero value is a healthy one without accounts.
type Options struct {
	Fault   Fault
	Account bool

	// TLS encrypts connections. The clients must trust [Server.Roots].
	TLS bool

	// Empty makes no topic or stream.
	Empty bool

	// Full makes a stream that refuses new messages. Only NATS has it.
	Full bool
}

// Server is a running broker.
type Server struct {
	// URL is its address without an account.
	URL string

	// Roots has the certificate of a server with TLS.
	Roots *x509.CertPool

	// Place and Within are the topic, or the subject and the stream.
	Place, Within string

	// Messages returns what was published to Place so far, in its order: headers as "name: value" lines in the order of
	// their names, an empty line, and the body.
	Messages func() []string

	// Kafka is the cluster, and NATS the server. One of them is set.
	Kafka *kfake.Cluster
	NATS  *server.Server
}

// fixed returns a text of a message.
func fixed(headers []string, body []byte) string {
	slices.Sort(headers)
	return strings.Join(headers, "\n") + "\n\n" + string(body)
}

// NewKafka starts a cluster of one broker with a topic of one partition.
func NewKafka(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := &Server{Place: Place}
	var reading atomic.Bool // the test itself reads the topic, over healthy connections
	fault := o.Fault
	fault.Settled = func() bool { return s.Kafka.PartitionInfo(Place, 0).HighWatermark > 0 }
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		open, err := new(net.ListenConfig).Listen(tb.Context(), network, address)
		return &faultyListener{open, func() Fault {
			if reading.Load() {
				return Fault{}
			}
			return fault
		}}, err
	})}
	if !o.Empty {
		options = append(options, kfake.SeedTopics(1, Place))
	}
	scheme := "kafka://"
	if o.TLS {
		var config *tls.Config
		config, s.Roots = certificate(tb)
		scheme, options = "kafka+ssl://", append(options, kfake.TLS(config))
	}
	if o.Account {
		options = append(options, kfake.EnableSASL(), kfake.Superuser("PLAIN", Username, Password))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cluster.Close)
	s.Kafka, s.URL = cluster, scheme+cluster.ListenAddrs()[0]
	s.Messages = func() []string {
		reading.Store(true)
		defer reading.Store(false)
		return kafkaMessages(tb, s, o.Account)
	}
	return s
}

// kafkaMessages reads the topic from its begin to its end.
func kafkaMessages(tb testing.TB, s *Server, account bool) (out []string) {
	tb.Helper()
	end := int64(0)
	if info := s.Kafka.PartitionInfo(Place, 0); info != nil {
		end = info.HighWatermark
	}
	if end == 0 {
		return nil
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Kafka.ListenAddrs()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{Place: {0: kgo.NewOffset().AtStart()}}),
	}
	if account {
		options = append(options, kgo.SASL(plain.Auth{User: Username, Pass: Password}.AsMechanism()))
	}
	if s.Roots != nil {
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: s.Roots, MinVersion: tls.VersionTLS12}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			tb.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var headers []string
			for _, h := range r.Headers {
				headers = append(headers, h.Key+": "+string(h.Value))
			}
			if r.Key != nil {
				headers = append(headers, "(key): "+string(r.Key))
			}
			out, next = append(out, fixed(headers, r.Value)), r.Offset+1
		})
	}
	return out
}

// NewNATS starts a server with a stream in memory.
func NewNATS(tb testing.TB, o Options) *Server {
	tb.Helper()
	options := &server.Options{
		Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: tb.TempDir(), MaxPayload: MaxMessage, DisableJetStreamBanner: true,
	}
	if o.Account {
		options.Username, options.Password = Username, Password
	}
	out, scheme := &Server{Place: Subject, Within: Place}, "nats://"
	if o.TLS {
		options.TLSConfig, out.Roots = certificate(tb)
		options.TLSTimeout, scheme = 30, "tls://"
	}
	s, err := server.NewServer(options)
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		tb.Fatal("the NATS server does not start")
	}
	out.NATS = s
	own := []nats.Option{nats.UserInfo(options.Username, options.Password)}
	if o.TLS {
		own = append(own, nats.Secure(&tls.Config{RootCAs: out.Roots, MinVersion: tls.VersionTLS12}))
	}
	conn, err := nats.Connect("nats://"+s.Addr().String(), own...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	var stored func() bool
	if !o.Empty {
		stored = newStream(tb, conn, o.Full)
	}
	fault := o.Fault
	fault.Settled = func() bool { return stored() }
	var wire wiretap
	out.Messages = wire.messages
	switch {
	case o.Empty: // no stream stores the messages
		out.Messages = func() []string { return nil }
	case o.TLS: // the connections are encrypted
		out.Messages = func() []string { return streamMessages(tb, conn) }
	}
	out.URL = scheme + proxy(tb, s.Addr().String(), func() Fault { return fault }, &wire)
	return out
}

// certificate returns the configuration of a server with a certificate for 127.0.0.1, and the roots that know it.
func certificate(tb testing.TB) (*tls.Config, *x509.CertPool) {
	tb.Helper()
	s := httptest.NewTLSServer(nil)
	tb.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots
}

// streamMessages reads the stream from its begin to its end.
func streamMessages(tb testing.TB, conn *nats.Conn) (out []string) {
	tb.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	stream, err := js.Stream(tb.Context(), Place)
	if err != nil {
		tb.Fatal(err)
	}
	for sequence := range stream.CachedInfo().State.LastSeq {
		msg, err := stream.GetMsg(tb.Context(), sequence+1)
		if err != nil {
			tb.Fatal(err)
		}
		var headers []string
		for name, values := range msg.Header {
			headers = append(headers, name+": "+strings.Join(values, ","))
		}
		out = append(out, fixed(headers, msg.Data))
	}
	return out
}

// newStream makes the stream, and returns what reports whether it has a message.
func newStream(tb testing.TB, conn *nats.Conn, full bool) func() bool {
	tb.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := jetstream.StreamConfig{Name: Place, Subjects: []string{Place + ".>"}, Storage: jetstream.MemoryStorage, Discard: jetstream.DiscardNew}
	if full {
		cfg.MaxMsgs = 1
	}
	stream, err := js.CreateStream(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	if full {
		if _, err := js.Publish(tb.Context(), Place+".other", nil); err != nil {
			tb.Fatal(err)
		}
	}
	return func() bool {
		info, err := stream.Info(context.Background())
		return err == nil && info.State.Msgs > 0
	}
}
