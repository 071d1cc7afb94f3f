package brokertest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncegate/oncegate/internal/broker"
	"github.com/oncegate/oncegate/internal/broker/faulttest"
)

// stream is a server with JetStream in this process.
type stream struct{ js jetstream.JetStream }

// NATS starts a server with JetStream.
func NATS(tb testing.TB) *Server {
	tb.Helper()
	s := faulttest.NewNATS(tb, faulttest.Options{Empty: true})
	conn, err := nats.Connect(s.URL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	return &Server{Kind: broker.NATS, URL: s.URL, driver: stream{js}}
}

func (s stream) create(ctx context.Context, place string, _ int) error {
	_, err := s.js.CreateStream(ctx, jetstream.StreamConfig{Name: place, Subjects: []string{place + ".>"}})
	return err
}

// publish publishes to the subject "<place>.created".
func (s stream) publish(ctx context.Context, place string, messages []Message) error {
	for i := range messages {
		m := &messages[i]
		out := nats.NewMsg(place + ".created")
		out.Data = m.Body
		for name, value := range m.Headers {
			out.Header[name] = []string{value}
		}
		if m.ID != "" {
			out.Header.Set(nats.MsgIdHdr, m.ID)
		}
		if _, err := s.js.PublishMsg(ctx, out); err != nil {
			return err
		}
	}
	return nil
}
